// Four channels at a time.
alias Value = vec4f;
const LANES: u32 = 4u;

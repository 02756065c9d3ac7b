// One channel at a time.
alias Value = f32;
const LANES: u32 = 1u;

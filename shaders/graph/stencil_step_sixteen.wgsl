// Nodes from where they are: what copying them into a texture takes, cheaper loads do not bring back on llvmpipe.
@group(0) @binding(1) var<storage, read> cur: array<vec4f>; // [b, h, rows, cols, c]

fn texel(at: u32) -> vec4f { return cur[at]; }

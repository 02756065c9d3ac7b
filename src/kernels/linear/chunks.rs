//! What the scan kernels share: how far a token sees, which keys count, and how a chunk's state lies in memory.
//!
//! Tokens come in chunks of `rows`. A state is Σⱼ γ^distance kⱼ [vⱼ, 1]ᵀ, stored as r × e products followed by the r sums of
//! keys (what the ones column gives), so that both parts are whole texels where r and e are multiples of four. A two-sided
//! state is two of them: of the keys before the chunk, and of the keys after it.
//!
//! `reach` `[b, h, n, 2]` says per token how many keys of its segment lie at or before it and at or after it, itself included;
//! 0, 0 for a token of no segment. Counts instead of offsets, so that a window of tokens needs nothing else.

use crate::kernel::wgsl_module::Shared;
use crate::kernel::{HostArgs, Real};
use crate::kernels::laplacian::kernel_matrix::kept;
use crate::tensor::Dims;

/// What every scan shader knows about tokens and keys.
pub const TOKENS: &Shared =
    &Shared { file: "linear/tokens.wgsl", body: include_str!("../../../shaders/linear/tokens.wgsl") };

/// What a state is multiplied by when it passes a chunk.
pub const CARRY: &Shared =
    &Shared { file: "linear/carry.wgsl", body: include_str!("../../../shaders/linear/carry.wgsl") };

/// Numbers of one state: r × (e + 1), twice for both directions.
pub fn state_size(r: u32, e: u32, two_sided: u32) -> u64 {
    u64::from(r) * (u64::from(e) + 1) * (1 + u64::from(two_sided))
}

/// Whether `s` holds states of this shape.
pub fn check_state(dims: &Dims, two_sided: u32) -> std::result::Result<(), String> {
    let (r, e, s) = (dims.size("r"), dims.size("e"), dims.size("s"));
    if two_sided > 1 {
        return Err(format!("two_sided is 0 or 1, got {two_sided}"));
    }
    if u64::from(s) != state_size(r, e, two_sided) {
        return Err(format!("a state of r = {r}, e = {e}, two_sided = {two_sided} has r(e + 1) numbers per direction, got s = {s}"));
    }
    Ok(())
}

/// Whether the table of powers, where there is one, has the decay of every head and reaches over a chunk.
pub fn check_powers(dims: &Dims, rows: u32) -> std::result::Result<(), String> {
    let (h, heads) = (dims.size("h"), dims.find("heads"));
    match (heads, dims.find("t")) {
        (Some(heads), _) if heads != 1 && heads != h => Err(format!("powers are of 1 or h = {h} heads, got {heads}")),
        (_, Some(t)) if u64::from(t) <= u64::from(rows) => Err(format!("powers 0 to {rows} are needed, got {t} of them")),
        _ => Ok(()),
    }
}

/// Keys of token i's segment at or before it and at or after it; everything where there are no segments.
pub fn reach<T: Real>(args: &HostArgs<T>, batch: usize, i: usize) -> (usize, usize) {
    match args.words_if("reach") {
        None => (usize::MAX, usize::MAX),
        Some(words) => {
            let at = args.start("reach", batch) + 2 * i;
            (words[at] as usize, words[at + 1] as usize)
        }
    }
}

/// Whether key j counts: it is neither masked nor of no segment.
pub fn key_counts<T: Real>(args: &HostArgs<T>, batch: usize, j: usize) -> bool {
    kept(args, "key_mask", batch, j) && reach(args, batch, j).0 > 0
}

/// Whether query i sees key j, as far as segments and direction say.
pub fn sees<T: Real>(args: &HostArgs<T>, batch: usize, i: usize, j: usize, two_sided: bool) -> bool {
    let (before, after) = reach(args, batch, i);
    if j <= i { i - j < before } else { two_sided && j - i < after }
}

/// γ^distance of a head, from the table of powers; 1 without one.
pub fn power<T: Real>(powers: Option<&[T]>, dims: &Dims, batch: usize, distance: usize) -> T {
    let head = batch % dims.at("h").max(1);
    powers.map_or(T::one(), |p| p[head % dims.at("heads").max(1) * dims.at("t") + distance])
}

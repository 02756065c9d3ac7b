//! Cutting one step into dispatches whose bindings fit the device: windows of heads, or of tokens within a head.

use crate::error::{Error, Result};
use crate::kernel::wgsl::{TEXTURE_WIDTH, UNIFORM_BYTES};
use crate::kernel::{Caps, Class, KernelSpec, Port, Variant};
use crate::tensor::{DType, Dims, Shape};

/// Most bytes of a tensor that are copied into a texture at a time where it can be cut: copies are to stay small beside the
/// tensors, and windows of this size hold enough work to pay for their dispatch.
const SMALL_TEXTURE_BYTES: u64 = 2 << 20;
/// The same for what cannot be cut, or is shared by all heads and would be copied for each: channels of a large grid of
/// tokens, and the words that a copy may begin before them.
const LARGE_TEXTURE_BYTES: u64 = (64 << 20) + 16;

/// One dispatch of a step.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// First head (counted through all batch elements).
    pub(crate) batch_from: u64,
    /// Heads it covers.
    pub(crate) batches: u64,
    /// Sizes as the shader sees them: token dimensions are the window's.
    pub(crate) dims: Dims,
    /// What to bind per port; `None` for absent ports and for textures of pixels.
    pub(crate) ports: Vec<Option<Part>>,
}

/// The part of a tensor that a window binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// First element, counted from the start of the memory object.
    pub(crate) from: u64,
    /// Elements.
    pub(crate) len: u64,
    /// What the shader's `_at` must be less than the element's place in the binding, because a shared port's strides
    /// already count the heads before the window.
    pub(crate) before: u64,
    /// Strides of a shared port per batch element and head.
    pub(crate) strides: (u64, u64),
}

/// A port's tensor as this module sees it.
struct Operand<'a> {
    port: &'a Port,
    shape: Shape,
    /// First element in the memory object.
    base: u64,
    limit: u64,
    /// Elements of one head.
    inner: u64,
    /// Whether every head has its own part.
    full: bool,
    /// Elements of the token dimension that one unit of a window covers.
    unit: Option<u64>,
}

impl Operand<'_> {
    fn bytes(&self, elements: u64) -> u64 {
        elements * self.port.dtype.bytes()
    }

    fn rows(&self) -> u64 {
        u64::from(self.shape.dims().get(2).copied().unwrap_or(1))
    }

    fn row(&self) -> u64 {
        self.inner.checked_div(self.rows()).unwrap_or(0)
    }

    fn strides(&self) -> (u64, u64) {
        let dims = self.shape.dims();
        if !self.port.broadcast {
            return (0, 0);
        }
        let h = if dims[1] == 1 { 0 } else { self.inner };
        let b = if dims[0] == 1 { 0 } else { self.inner * u64::from(dims[1]) };
        (b, h)
    }
}

/// Cuts a step. `bases[i]` is the element at which port `i`'s tensor begins in its memory object.
///
/// Errors: [`Error::Limit`] if one head, and one unit of a head, is too large for a binding.
pub(crate) fn windows(
    spec: &KernelSpec,
    variant: &Variant,
    params: &[u8],
    dims: &Dims,
    shapes: &[Option<Shape>],
    bases: &[u64],
    caps: &Caps,
) -> Result<Vec<Window>> {
    let units = (spec.window)(dims, params);
    let batches = dims.batches();
    let heads = u64::from(dims.find("h").unwrap_or(1)).max(1);
    let operand = |(i, port): (usize, &'static Port)| {
        let shape = shapes[i].filter(|_| port.dtype != DType::Rgba8)?;
        let d = shape.dims();
        let headed = port.dims.len() >= 2 && port.dims[0] == "b" && port.dims[1] == "h";
        let full = headed && u64::from(d[0]) * u64::from(d[1]) == batches;
        let inner = if headed { d[2..].iter().map(|&x| u64::from(x)).product() } else { shape.len() };
        let class = variant.classes.iter().find(|(n, _)| *n == port.name).map_or(Class::Storage, |(_, c)| *c);
        let unit = if headed && d.len() > 2 {
            units.iter().find(|(n, _)| *n == port.dims[2]).map(|u| u64::from(u.1))
        } else {
            None
        };
        let limit = match class {
            // The binding may begin up to one alignment before the part.
            Class::Storage => caps.storage_binding.saturating_sub(u64::from(caps.storage_alignment)),
            Class::Uniform => UNIFORM_BYTES,
            Class::Texture => {
                let whole = if full { inner } else { shape.len() };
                let uncut = unit.map_or(whole, |u| inner / u64::from(d[2]).max(1) * u);
                let wanted = if full { SMALL_TEXTURE_BYTES } else { LARGE_TEXTURE_BYTES };
                let largest = u64::from(TEXTURE_WIDTH) * u64::from(caps.texture_rows) * 16;
                // The copy may begin up to three words before the part.
                wanted.max((uncut * 4 + 16).min(LARGE_TEXTURE_BYTES)).min(largest) - 16
            }
        };
        Some(Operand { port, shape, base: bases[i], limit, inner, full, unit })
    };
    let operands: Vec<Option<Operand<'_>>> = spec.ports.iter().enumerate().map(operand).collect();
    let too_large = |o: &Operand<'_>, requested: u64| Error::Limit {
        what: format!("{}: one head of port `{}` {}", spec.name, o.port.name, o.shape),
        requested,
        allowed: o.limit,
        remedy: "use fewer tokens or landmarks, or a device with larger bindings".into(),
    };
    let present = || operands.iter().flatten();
    // Ports that all heads share, and ports without heads, are bound whole.
    if let Some(o) = present().find(|o| {
        !o.full && (o.unit.is_none() || o.bytes(o.inner) <= o.limit) && o.bytes(o.shape.len()) > o.limit
    }) {
        return Err(too_large(o, o.bytes(o.shape.len())));
    }
    let fitting = present().filter(|o| o.full && o.inner > 0).map(|o| o.limit / o.bytes(o.inner)).min();
    // A shared port that can only be bound in parts forces windows of tokens, whatever the others need.
    let shared_too_large = present().any(|o| !o.full && o.bytes(o.inner) > o.limit);
    let per_window = if shared_too_large { 0 } else { fitting.unwrap_or(batches.max(1)) };
    if batches == 0 {
        return Ok(Vec::new());
    }
    if per_window > 0 {
        let starts = (0..batches).step_by(usize::try_from(per_window).unwrap_or(usize::MAX));
        let window = |from: u64| {
            let count = per_window.min(batches - from);
            let part = |o: &Operand<'_>| {
                let strides = o.strides();
                let (from_element, len) =
                    if o.full { (from * o.inner, count * o.inner) } else { (0, o.shape.len()) };
                let before = if o.full && o.port.broadcast { from * o.inner } else { 0 };
                Part { from: o.base + from_element, len, before, strides }
            };
            let ports = operands.iter().map(|o| o.as_ref().map(part)).collect();
            Window { batch_from: from, batches: count, dims: dims.clone(), ports }
        };
        return Ok(starts.map(window).collect());
    }
    // One head does not fit: windows of tokens.
    let mut per_window = u64::MAX;
    for o in present().filter(|o| o.bytes(o.inner) > o.limit) {
        let Some(unit) = o.unit else { return Err(too_large(o, o.bytes(o.inner))) };
        let fits = o.limit / o.bytes(o.row() * unit);
        if fits == 0 {
            return Err(too_large(o, o.bytes(o.row() * unit)));
        }
        per_window = per_window.min(fits);
    }
    // Whole cache lines of rows, where there are enough.
    let per_window = if per_window > 64 { per_window / 64 * 64 } else { per_window };
    let total = present().filter_map(|o| o.unit.map(|u| o.rows().div_ceil(u))).max().unwrap_or(0);
    let mut result = Vec::new();
    for batch in 0..batches {
        let (b, h) = (batch / heads, batch % heads);
        let mut from = 0;
        while from < total {
            let to = (from + per_window).min(total);
            let part = |o: &Operand<'_>| {
                let strides = o.strides();
                let shared = b * strides.0 + h * strides.1;
                let head = if o.port.broadcast {
                    shared
                } else if o.full {
                    batch * o.inner
                } else {
                    0
                };
                let before = if o.port.broadcast { head } else { 0 };
                match o.unit {
                    Some(unit) => {
                        let (first, last) = ((from * unit).min(o.rows()), (to * unit).min(o.rows()));
                        Part {
                            from: o.base + head + first * o.row(),
                            len: (last - first) * o.row(),
                            before,
                            strides,
                        }
                    }
                    None if o.full || o.port.broadcast => {
                        Part { from: o.base + head, len: o.inner, before, strides }
                    }
                    None => Part { from: o.base, len: o.shape.len(), before: 0, strides },
                }
            };
            let ports: Vec<_> = operands.iter().map(|o| o.as_ref().map(part)).collect();
            let mut window_dims = dims.clone();
            for &(name, unit) in &units {
                let size = u64::from(dims.size(name));
                let rows = (to * u64::from(unit)).min(size) - (from * u64::from(unit)).min(size);
                window_dims.set(name, u32::try_from(rows).expect("a part of a dimension"));
            }
            result.push(Window { batch_from: batch, batches: 1, dims: window_dims, ports });
            from = to;
        }
    }
    Ok(result)
}

/// Folds a line of groups into three dimensions of at most `limit` each.
///
/// Errors: [`Error::Limit`] past `limit`³ groups or 2³² − 1.
pub(crate) fn fold(kernel: &str, groups: u64, limit: u32) -> Result<[u32; 3]> {
    let limit = u64::from(limit);
    let too_many = || Error::Limit {
        what: format!("workgroups of {kernel}"),
        requested: groups,
        allowed: limit.saturating_pow(3).min(u64::from(u32::MAX)),
        remedy: "use fewer tokens or heads in one graph".into(),
    };
    let narrow = |x: u64| u32::try_from(x).map_err(|_| too_many());
    narrow(groups)?;
    let x = groups.min(limit).max(1);
    // As few layers as will do, then as few lines in each, so that little is dispatched in vain.
    let z = groups.div_ceil(x * limit).max(1);
    let y = groups.div_ceil(x * z).max(1);
    if z > limit || x * y * z > u64::from(u32::MAX) {
        return Err(too_many());
    }
    Ok([narrow(x)?, narrow(y)?, narrow(z)?])
}

#[cfg(test)]
mod tests {
    use super::fold;
    use crate::error::Error;

    const LIMIT: u32 = 65_535;

    #[test]
    fn few_groups_stay_a_line() {
        for groups in [1, 2, 64, 65_535] {
            assert_eq!(fold("k", groups, LIMIT).expect("a line"), [groups as u32, 1, 1]);
        }
    }

    #[test]
    fn no_groups_fold_to_one_that_nobody_dispatches() {
        assert_eq!(fold("k", 0, LIMIT).expect("nothing"), [1, 1, 1]);
    }

    #[test]
    fn folded_groups_cover_all_and_stay_within_the_limit() {
        let cube = u64::from(LIMIT) * u64::from(LIMIT);
        for groups in [65_536, 65_537, 2 * 65_535, 1 << 31, cube - 1, u64::from(u32::MAX) - 65_535] {
            let [x, y, z] = fold("k", groups, LIMIT).expect("fits");
            assert!([x, y, z].iter().all(|side| (1..=LIMIT).contains(side)), "{groups}: {x} {y} {z}");
            let covered = u64::from(x) * u64::from(y) * u64::from(z);
            assert!(covered >= groups && covered <= u64::from(u32::MAX), "{groups}: {covered}");
        }
    }

    #[test]
    fn a_small_limit_uses_all_three_dimensions() {
        assert_eq!(fold("k", 27, 3).expect("fits"), [3, 3, 3]);
        assert_eq!(fold("k", 10, 3).expect("fits"), [3, 2, 2]);
    }

    #[test]
    fn too_many_groups_are_an_error_with_the_numbers() {
        for (groups, limit, most) in [(28, 3, 27), (u64::from(u32::MAX) + 1, LIMIT, u64::from(u32::MAX))] {
            let Err(Error::Limit { what, requested, allowed, .. }) = fold("scan", groups, limit) else {
                panic!("{groups} groups were folded")
            };
            assert_eq!((what.as_str(), requested, allowed), ("workgroups of scan", groups, most));
        }
    }
}

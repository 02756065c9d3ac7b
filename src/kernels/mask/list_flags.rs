//! The places of all set flags in ascending order: last pass of [`noise_guard`](super::noise_guard).
//!
//! * `flags` `[total]`; `counts` `[parts]` of [`count_flags`](super::count_flags) with the same `part`.
//! * `slot` `[total]`: number of the flag in the list, 0xffffffff where it is not set.
//! * `list` `[w]`, w = c + 1: how many places follow (at most c), the places, then 0xffffffff.
//! * `dispatch` `[3]`: workgroups for an indirect dispatch of `groups_per_row` for each listed place, in lines of at most 65 535.
//! * `status` `[2]`: set flags, and flags; with more than c of them the list was too short.

use super::count_flags::{PART, check_parts};
use crate::error::Result;
use crate::kernel::wgsl_module::GROUP;
use crate::kernel::*;
use crate::tensor::{DType, Dims, HostData};
use crate::{cuda_source, params, reference};

params! {
    /// Parameters of [`SPEC`].
    pub struct Params {
        /// workgroups for each listed place
        live groups_per_row: u32 = 1,
        /// flags of a part, a multiple of 64
        fixed part: u32 = PART,
    }
}

/// Workgroups for `rows` listed rows, folded as the shader folds them.
fn folded(rows: u32, groups_per_row: u32) -> Vec<u32> {
    let wanted = rows * groups_per_row;
    let lines = wanted.div_ceil(65_535).max(1);
    vec![wanted.div_ceil(lines), lines, 1]
}

/// The outputs `slot`, `list`, `dispatch` and `status` for a list of at most `capacity`.
pub(crate) fn list(flags: &[u32], capacity: usize, groups_per_row: u32) -> [Vec<u32>; 4] {
    let places: Vec<u32> = (0..flags.len() as u32).filter(|&i| flags[i as usize] != 0).collect();
    let mut slot = vec![u32::MAX; flags.len()];
    for (number, &place) in places.iter().enumerate() {
        slot[place as usize] = number as u32;
    }
    let listed = places.len().min(capacity);
    let mut list = vec![listed as u32];
    list.extend(&places[..listed]);
    list.resize(capacity + 1, u32::MAX);
    let status = vec![places.len() as u32, flags.len() as u32];
    [slot, list, folded(listed as u32, groups_per_row), status]
}

/// Refuses lists longer than all flags, whose end nobody would write.
pub(crate) fn check_list(total: u64, w: u32, groups_per_row: u32) -> std::result::Result<(), String> {
    let capacity = u64::from(w).checked_sub(1).ok_or("`list` has no word for the count")?;
    if capacity > total {
        return Err(format!("`list` has room for {capacity} of {total} rows; wants at most all"));
    }
    // Lines and their length stay below 65 536.
    let groups = capacity * u64::from(groups_per_row);
    if groups > u64::from(u32::MAX) - 65_535 {
        return Err(format!("{groups} workgroups are more than one dispatch has"));
    }
    Ok(())
}

fn reference<T: Real>(args: &mut HostArgs<T>) -> Result<()> {
    let p: Params = args.params();
    let lists = list(&args.words("flags"), args.dims.at("w") - 1, p.groups_per_row);
    for (port, words) in ["slot", "list", "dispatch", "status"].into_iter().zip(lists) {
        args.set_words(port, words);
    }
    Ok(())
}

fn is_flagged(i: u32) -> u32 {
    u32::from(i.is_multiple_of(7) || i % 11 == 3)
}

fn some(dims: &Dims) -> HostData {
    HostData::U32((0..dims.size("total")).map(is_flagged).collect())
}

/// The counts of [`some`] (and of one set flag), in parts of as many as the cases use.
fn counts(dims: &Dims) -> HostData {
    let (total, parts) = (dims.size("total"), dims.size("parts"));
    let part = [128, PART].into_iter().find(|part| total.div_ceil(*part) == parts).unwrap_or(PART);
    let count = |k: u32| (k * part..(k * part + part).min(total)).map(is_flagged).sum();
    HostData::U32((0..parts).map(count).collect())
}

/// The kernel's description.
pub static SPEC: KernelSpec = KernelSpec {
    name: "list_flags",
    family: "mask",
    formula: "list = (#flags, i : flags[i] ≠ 0), slot[list[l]] = l",
    source: "stream compaction by counts of parts",
    ports: &[
        Port::read("flags", &["total"]).of(DType::U32),
        Port::read("counts", &["parts"]).of(DType::U32),
        Port::write("slot", &["total"]).of(DType::U32),
        Port::write("list", &["w"]).of(DType::U32),
        Port::write("dispatch", &["3"]).of(DType::U32),
        Port::write("status", &["2"]).of(DType::U32),
    ],
    params: Params::FIELDS,
    defaults: Params::default_bytes,
    output_dims: Some(|dims, _| dims.set("w", dims.size("total").saturating_add(1))),
    check: |dims, params| {
        let p = Params::from_bytes(params);
        check_parts(dims, p.part)?;
        check_list(u64::from(dims.size("total")), dims.size("w"), p.groups_per_row)
    },
    wgpu: OnWgpu::Shader(&[Variant::only(
        "mask/list_flags.wgsl",
        include_str!("../../../shaders/mask/list_flags.wgsl"),
        &[GROUP],
        |d, _| u64::from(d.size("parts")),
        |d, _| {
            let (total, parts) = (f64::from(d.size("total")), f64::from(d.size("parts")));
            Loads { storage: 2.0 * total + parts * parts, workgroup: parts * 2048.0, ..Loads::default() }
        },
    )
    .rounds(|d| u64::from(d.size("parts") / 64 + 1) + 64 + 2 * u64::from(PART / 64))]),
    cuda: OnCuda::Source(&[cuda_source!("mask/list_flags.cu", 256, |d, _| u64::from(d.size("parts")))]),
    reference: reference!(reference),
    window: whole_heads,
    cost: |d, _| {
        let total = f64::from(d.size("total"));
        let stores = total + f64::from(d.size("w")) + 4.0;
        Cost { flop: 2.0 * total, exp: 0.0, stores, bytes: 4.0 * (total + stores), ..Cost::default() }
    },
    tolerance: Tolerance::EXACT,
    cases: &[
        Case::new("smallest", &[("total", 1), ("parts", 1), ("w", 2)], Params::default_bytes)
            .filled(&[("flags", Fill::Made(some)), ("counts", Fill::Made(counts))]),
        Case::new("odd", &[("total", 1237), ("parts", 10), ("w", 1238)], || {
            Params { part: 128, groups_per_row: 2 }.to_bytes()
        })
        .filled(&[("flags", Fill::Made(some)), ("counts", Fill::Made(counts))]),
        Case::new("short_list", &[("total", 500), ("parts", 4), ("w", 31)], || {
            Params { part: 128, groups_per_row: 1 }.to_bytes()
        })
        .filled(&[("flags", Fill::Made(some)), ("counts", Fill::Made(counts))]),
        Case::new("more_groups_than_a_line_has", &[("total", 1000), ("parts", 8), ("w", 1001)], || {
            Params { part: 128, groups_per_row: 1001 }.to_bytes()
        })
        .filled(&[("flags", Fill::Made(some)), ("counts", Fill::Made(counts))]),
        Case::new("parts_of_2048", &[("total", 5001), ("parts", 3), ("w", 5002)], Params::default_bytes)
            .filled(&[("flags", Fill::Made(some)), ("counts", Fill::Made(counts))]),
        Case::new(
            "flags_1m",
            &[("total", 1_048_576), ("parts", 512), ("w", 1_048_577)],
            Params::default_bytes,
        )
        .filled(&[("flags", Fill::Made(some)), ("counts", Fill::Made(counts))])
        .for_bench(),
    ],
    vjp: None,
};

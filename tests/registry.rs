//! What must hold for every entry of the list of kernels, so that a new one cannot forget anything.

use std::collections::BTreeSet;
use std::path::Path;
use wgattn::kernel::case::Concrete;
use wgattn::kernel::wgsl_module::Shared;
use wgattn::kernel::{Access, Caps, Driver, KernelSpec, OnCuda, OnWgpu, Variant, cuda};
use wgattn::kernels::{KERNELS, find};
use wgattn::tensor::Dims;

fn variants(spec: &'static KernelSpec) -> &'static [Variant] {
    match &spec.wgpu {
        OnWgpu::Shader(variants) => variants,
        OnWgpu::Expand(_) => &[],
    }
}

/// The CUDA sources of a kernel, that after a library included.
fn sources(spec: &'static KernelSpec) -> Vec<&'static cuda::Source> {
    match &spec.cuda {
        OnCuda::Source(sources) => sources.iter().collect(),
        OnCuda::Library(_, after) => vec![*after],
        OnCuda::Expand => Vec::new(),
    }
}

/// The shared modules of all variants, once per use.
fn shared_modules() -> impl Iterator<Item = &'static Shared> {
    KERNELS.iter().flat_map(|k| variants(k)).flat_map(|v| v.shared).copied()
}

/// Collects what is wrong, so that one run shows everything.
fn none_wrong(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn names_are_unique_and_found() {
    let names: BTreeSet<_> = KERNELS.iter().map(|k| k.name).collect();
    assert_eq!(names.len(), KERNELS.len(), "two kernels share a name");
    for spec in KERNELS {
        assert!(find(spec.name).is_some_and(|found| std::ptr::eq(found, *spec)), "{}", spec.name);
        for (list, what) in [
            (spec.ports.iter().map(|p| p.name).collect::<Vec<_>>(), "ports"),
            (spec.params.iter().map(|f| f.name).collect(), "parameters"),
            (spec.cases.iter().map(|c| c.name).collect(), "cases"),
            (variants(spec).iter().map(|v| v.name).collect(), "variants"),
        ] {
            assert_eq!(
                list.iter().collect::<BTreeSet<_>>().len(),
                list.len(),
                "{}: two {what} share a name",
                spec.name
            );
        }
    }
}

#[test]
fn every_kernel_says_what_it_is() {
    let mut wrong = Vec::new();
    for spec in KERNELS {
        let mut need = |ok: bool, what: &str| {
            if !ok {
                wrong.push(format!("{}: {what}", spec.name));
            }
        };
        need(!spec.formula.trim().is_empty() && !spec.formula.contains('\n'), "has no formula in one line");
        need(!spec.source.trim().is_empty(), "has no source");
        need(!spec.tolerance.reason.trim().is_empty(), "has a tolerance without reason");
        need(spec.tolerance.factor <= 2.0, "allows more than twice the naive error");
        need(spec.ports.iter().any(|p| p.access == Access::Write), "writes nothing");
        need(spec.params.iter().all(|f| !f.doc.trim().is_empty()), "has a parameter without documentation");
        need(
            (spec.defaults)().len() == 4 * spec.params.len(),
            "has defaults of another size than its parameters",
        );
        need(matches!(spec.wgpu, OnWgpu::Expand(_)) || !variants(spec).is_empty(), "has no variant");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels").join(spec.family);
        need(folder.join(format!("{}.rs", spec.name)).is_file(), "is not in the file of its name and family");
    }
    none_wrong(wrong);
}

#[test]
fn every_shader_has_a_smallest_and_an_odd_case() {
    let mut wrong = Vec::new();
    for spec in KERNELS.iter().filter(|k| !variants(k).is_empty()) {
        let tested = || spec.cases.iter().filter(|c| !c.bench);
        if !tested().any(|c| c.name == "smallest") {
            wrong.push(format!("{} has no case `smallest`", spec.name));
        }
        // Larger than a vec4, so that it is no special case of `smallest`.
        if !tested().any(|c| c.dims.iter().any(|(_, size)| *size > 4 && size % 4 != 0)) {
            wrong.push(format!("{} has no case with a size that is no multiple of 4", spec.name));
        }
    }
    none_wrong(wrong);
}

#[test]
fn cases_name_existing_things_and_make_valid_graphs() {
    let mut wrong = Vec::new();
    for spec in KERNELS {
        let names = spec.dim_names();
        for case in spec.cases {
            let at = format!("{}/{}", spec.name, case.name);
            let given: BTreeSet<_> = case.dims.iter().map(|(n, _)| *n).collect();
            let present = spec.ports.iter().filter(|p| !case.absent.contains(&p.name));
            let needed = present.flat_map(|p| p.dims).filter(|d| d.parse::<u32>().is_err());
            for missing in needed.filter(|d| !given.contains(*d)) {
                wrong.push(format!("{at}: dimension `{missing}` has no size"));
            }
            for extra in given.iter().filter(|d| !names.contains(*d)) {
                wrong.push(format!("{at}: no port has dimension `{extra}`"));
            }
            let ports = case.absent.iter().chain(case.broadcast).chain(case.fill.iter().map(|(n, _)| n));
            for extra in ports.filter(|n| spec.port_index(n).is_none()) {
                wrong.push(format!("{at}: there is no port `{extra}`"));
            }
            let optional = |n: &&&str| spec.port_index(n).is_some_and(|i| spec.ports[i].optional);
            for needed in case.absent.iter().filter(|n| !optional(n)) {
                wrong.push(format!("{at}: port `{needed}` is left out but not optional"));
            }
            if let Err(error) = Concrete::of(spec, case).and_then(|c| c.graph().map(drop)) {
                wrong.push(format!("{at}: {error}"));
            }
        }
    }
    none_wrong(wrong);
}

#[test]
fn costs_and_loads_are_finite_and_positive() {
    let mut wrong = Vec::new();
    for spec in KERNELS {
        for case in spec.cases {
            let (dims, params) = (Dims::of(case.dims), (case.params)());
            let at = format!("{}/{}", spec.name, case.name);
            // Nothing to do costs nothing.
            let empty = case.dims.iter().any(|(_, size)| *size == 0);
            let sane = |x: &f64| x.is_finite() && *x >= 0.0;
            let cost = (spec.cost)(&dims, &params);
            let all = [cost.flop, cost.exp, cost.stores, cost.bytes];
            if !all.iter().all(sane) || !empty && (cost.bytes == 0.0 || cost.stores == 0.0) {
                wrong.push(format!("{at}: {cost:?}"));
            }
            for variant in variants(spec).iter().filter(|v| (v.suits)(&dims, &params, &generous())) {
                let loads = (variant.loads)(&dims, &params);
                let all = [loads.storage, loads.uniform, loads.texture, loads.workgroup];
                let reads = spec.ports.iter().any(|port| port.access != Access::Write);
                if !all.iter().all(sane)
                    || !empty && reads && cost.flop > 0.0 && all.iter().sum::<f64>() == 0.0
                {
                    wrong.push(format!("{at}/{}: {loads:?}", variant.name));
                }
            }
        }
    }
    none_wrong(wrong);
}

/// A device that allows everything.
fn generous() -> Caps {
    Caps {
        driver: Driver::Gpu,
        workgroup_bytes: u32::MAX,
        invocations: 1024,
        storage_binding: 1 << 32,
        buffer: 1 << 32,
        storage_buffers: 32,
        texture_rows: 16_384,
        storage_alignment: 4,
        groups: 65_535,
        loop_rounds: u64::MAX,
        subgroup_lanes: 8,
        memory_budget: 1 << 32,
    }
}

#[test]
fn every_variant_is_reached_by_a_parity_case() {
    let mut wrong = Vec::new();
    for spec in KERNELS {
        for variant in variants(spec) {
            let suits =
                |c: &&wgattn::kernel::Case| (variant.suits)(&Dims::of(c.dims), &(c.params)(), &generous());
            if !spec.cases.iter().filter(|c| !c.bench).any(|c| suits(&c)) {
                wrong.push(format!(
                    "{}/{}: no case that the parity test runs suits it",
                    spec.name, variant.name
                ));
            }
        }
    }
    none_wrong(wrong);
}

#[test]
fn names_are_wgsl_identifiers_and_not_reserved() {
    let identifier = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.contains("__")
            && !naga::keywords::wgsl::RESERVED.contains(&name)
    };
    let mut wrong = Vec::new();
    for spec in KERNELS {
        let names = spec.dim_names().into_iter().chain(spec.ports.iter().map(|p| p.name));
        for name in names.chain(spec.params.iter().map(|f| f.name)).filter(|n| !identifier(n)) {
            wrong.push(format!("{}: `{name}` is no WGSL identifier", spec.name));
        }
        // They share the struct `Params`.
        let words = wgattn::kernel::wgsl::param_words(spec);
        let unique: BTreeSet<_> = words.iter().map(|(name, _, _)| name).collect();
        if unique.len() != words.len() {
            wrong.push(format!("{}: a parameter and a dimension share a name", spec.name));
        }
    }
    none_wrong(wrong);
}

#[test]
fn variants_name_existing_ports_and_their_own_files() {
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let read = |file: &str| std::fs::read_to_string(shaders.join(file)).unwrap_or_default();
    let mut wrong = Vec::new();
    for spec in KERNELS {
        for variant in variants(spec) {
            let at = format!("{}/{}", spec.name, variant.name);
            let ports = variant.classes.iter().map(|(n, _)| n).chain(variant.vec4);
            for extra in ports.filter(|n| spec.port_index(n).is_none()) {
                wrong.push(format!("{at}: there is no port `{extra}`"));
            }
            if read(variant.file) != variant.body {
                wrong.push(format!("{at}: its text is not that of shaders/{}", variant.file));
            }
        }
    }
    for shared in shared_modules().filter(|s| read(s.file) != s.body) {
        wrong.push(format!("shared module: its text is not that of shaders/{}", shared.file));
    }
    none_wrong(wrong);
}

#[test]
fn every_kernel_has_a_twin_in_cuda() {
    let mut wrong = Vec::new();
    for spec in KERNELS {
        let stem = format!("{}/{}", spec.family, spec.name);
        if matches!((&spec.cuda, &spec.wgpu), (OnCuda::Expand, OnWgpu::Shader(_))) {
            wrong.push(format!("{}: is one dispatch on wgpu, so it has nothing to expand into", spec.name));
        }
        let sources = sources(spec);
        for source in &sources {
            let at = format!("{}/{}", spec.name, source.name);
            if !source.file.starts_with(&stem) || !source.file.ends_with(".cu") {
                wrong.push(format!(
                    "{at}: its file is shaders/{}, and its kernel's stem is {stem}",
                    source.file
                ));
            }
            if let Err(error) = cuda::check_entry(spec, source) {
                wrong.push(error.to_string());
            }
            for extra in source.vec4.iter().filter(|n| spec.port_index(n).is_none()) {
                wrong.push(format!("{at}: there is no port `{extra}`"));
            }
            if source.threads == 0 || source.threads > 1024 || source.threads % 32 != 0 {
                wrong.push(format!(
                    "{at}: a block has whole warps, up to 1024 threads; got {}",
                    source.threads
                ));
            }
            let suits = |case: &&wgattn::kernel::Case| (source.suits)(&Dims::of(case.dims), &(case.params)());
            if !spec.cases.iter().filter(|c| !c.bench).any(|c| suits(&c)) {
                wrong.push(format!("{at}: no case suits it"));
            }
        }
        let names: BTreeSet<_> = sources.iter().map(|s| s.name).collect();
        if names.len() != sources.len() {
            wrong.push(format!("{}: two sources have one name", spec.name));
        }
        for case in spec.cases.iter().filter(|_| matches!(spec.cuda, OnCuda::Source(_))) {
            let (dims, params) = (Dims::of(case.dims), (case.params)());
            // Rows of whole vectors where a source wants them.
            let whole = |port: &&str| {
                let last = spec.ports.iter().find(|p| p.name == *port).and_then(|p| p.dims.last());
                last.is_some_and(|d| d.parse().unwrap_or_else(|_| dims.size(d)).is_multiple_of(4))
            };
            if !sources.iter().any(|s| (s.suits)(&dims, &params) && s.vec4.iter().all(whole)) {
                wrong.push(format!("{}/{}: no source suits it", spec.name, case.name));
            }
        }
    }
    none_wrong(wrong);
}

#[test]
fn every_file_in_shaders_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let bodies = KERNELS.iter().flat_map(|k| variants(k)).map(|v| v.file);
    let twins = KERNELS.iter().flat_map(|k| sources(k));
    let twins =
        twins.flat_map(|s| s.shared.iter().map(|m| m.file).chain([s.file])).chain([cuda::PRELUDE.file]);
    let used: BTreeSet<&str> = bodies.chain(shared_modules().map(|s| s.file)).chain(twins).collect();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("shaders/ can be read") {
            let path = entry.expect("shaders/ can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name =
                path.strip_prefix(&root).expect("it is below shaders/").to_string_lossy().replace('\\', "/");
            assert!(used.contains(name.as_str()), "no kernel uses shaders/{name}");
        }
    }
}

//! `wgattn eval`: any kernel of the registry, any mask, graph attention layers and position codes on arrays from a file, so that other
//! programs can use and check us.

mod gkat;
mod mask;
mod network;
mod position;

use super::on_graph::AnyMask;
use super::{Failure, Outcome, notice, print_line};
use crate::arrays::{self, Array, ArrayData};
use crate::graph::{Graph, Lowering};
use crate::kernel::case::Concrete;
use crate::kernel::{Access, Driver, KernelSpec, Number, OnCuda, OnWgpu, Port, Role, Variant};
use crate::kernels::{KERNELS, find};
use crate::mask::network::GraphSpec;
use crate::numbers::shortest;
use crate::position::spec::EncodingSpec;
use crate::tensor::{DType, Dims, HostData, HostTensor, Shape};
use crate::words::{closest, counted, plural};
use glam::UVec2;
use network::Tensors;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of a run, which lists and descriptions do not look at.
const RUNS: [&str; 11] = [
    "inputs",
    "params",
    "dims",
    "graph",
    "directed",
    "grid",
    "transposed",
    "device",
    "out",
    "allow_nonfinite",
    "unchecked",
];

/// Arguments of `wgattn eval`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Kernel or attention form, a mask as `--mask` takes it (such as diffusion:t=10 or toeplitz:gauss,size=8), gkat[:MASK], or a position
    /// code such as spe-sine:sinusoids=5,realizations=64
    #[arg(required_unless_present_any = ["list", "describe"])]
    name: Option<String>,
    /// List everything that can be run, or what has NAME in its name
    #[arg(long, conflicts_with_all = RUNS)]
    list: bool,
    /// Print formula, source, ports and parameters of one
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "list"], conflicts_with_all = RUNS)]
    describe: Option<String>,
    /// Arrays by port name: .npz or .safetensors
    #[arg(long)]
    inputs: Option<PathBuf>,
    /// A parameter as key=value; may be given several times
    #[arg(long = "param", value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// Size of a dimension that no input has, as name=size (such as r=1); may be given several times
    #[arg(long = "dim", value_name = "NAME=SIZE")]
    dims: Vec<String>,
    /// auto, cpu, cuda:0, or the index, name or backend of an adapter
    #[arg(long, default_value = "auto", value_parser = super::device_word)]
    device: String,
    #[command(flatten)]
    tune: super::tune::TuneArg,
    /// Graph under a mask along edges or a layer: a FILE whose nodes are the tokens (edge lists with
    /// [:numbering=zero|one|names,directed,nodes=…] behind it where they need it), or, with --grid, grid4, grid8, torus4, torus8 or
    /// image[:sensitivity=8,reach=8,cut=0]; or leave it out and give `edges` among the inputs
    #[arg(long)]
    graph: Option<GraphSpec>,
    /// Edges of an edge list or of `edges` lead one way only
    #[arg(long)]
    directed: bool,
    /// Rows and columns of tokens under a mask
    #[arg(long, value_name = "ROWSxCOLS", value_parser = super::mask::parse_cells)]
    grid: Option<UVec2>,
    /// Products with the mask's transpose
    #[arg(long)]
    transposed: bool,
    /// Where the outputs go: .npz, .npy (one output) or .safetensors
    #[arg(long)]
    out: Option<PathBuf>,
    /// Take inputs that hold NaN or infinities, and results that do where those of the f64 reference do not
    #[arg(long)]
    allow_nonfinite: bool,
    /// Take weights below 0, decays outside 0 to 1 and segments that overlap, for whatever they may mean
    #[arg(long)]
    unchecked: bool,
}

/// Kernels that divide rows by sums of their table's weights.
const WEIGHTED: [&str; 5] =
    ["masked_attention", "relative_attention", "relative_rows", "relative_map", "weigh_rows"];

/// Refuses numbers that mean nothing to a kernel, as the library's own types do before they record it.
fn check_meaning(spec: &KernelSpec, port: &str, tensor: &HostTensor) -> Result<(), Failure> {
    let refused = |index: usize, got: &str, expected: &str| {
        Failure(format!(
            "{}: element {index} of port `{port}`: expected {expected}, got {got}; --unchecked takes it as it is",
            spec.name
        ))
    };
    let first = |bad: fn(f32) -> bool, expected: &str| {
        let numbers = tensor.to_f32();
        let found = numbers.iter().position(|x| bad(*x));
        found.map_or(Ok(()), |at| Err(refused(at, &shortest(&numbers[at]), expected)))
    };
    match (port, tensor.data()) {
        ("table", _) if WEIGHTED.contains(&spec.name) => first(|x| x < 0.0, "a weight of at least 0"),
        ("given", _) if spec.name == "weigh_rows" => first(|x| x < 0.0, "a weight of at least 0"),
        ("decay", _) if spec.family == "linear" => {
            first(|x| !(0.0..=1.0).contains(&x), "a factor from 0 to 1")
        }
        ("segment", HostData::U32(words)) => {
            let pairs: Vec<[u32; 2]> = words.chunks_exact(2).map(|w| [w[0], w[1]]).collect();
            for (row, [start, end]) in pairs.iter().copied().enumerate() {
                let own = start == end || (start as usize..end as usize).contains(&row);
                let same = |token: usize| pairs.get(token) == Some(&[start, end]);
                // The first token of a segment speaks for all of them.
                let whole = start == end
                    || same(start as usize)
                        && (row != start as usize || (start as usize..end as usize).all(same));
                if start > end || end as usize > pairs.len() || !own || !whole {
                    let expected = format!(
                        "the start and end of the segment that holds token {row}, the same for all its tokens, at most {}",
                        pairs.len()
                    );
                    return Err(refused(2 * row, &format!("{start} and {end}"), &expected));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What a name means.
enum Meant {
    Kernel(&'static KernelSpec),
    Mask(AnyMask),
    Layer(crate::attention::gkat::GraphMask),
    Position(EncodingSpec),
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    if args.list {
        return list(args.name.as_deref());
    }
    if let Some(name) = &args.describe {
        return match (find(name), mask::kind_of(name)) {
            (Some(spec), _) => describe(spec),
            (None, Some(kind)) => mask::describe(kind),
            _ if EncodingSpec::is_meant(name) => position::describe(&name.parse()?),
            _ if gkat::meant(name)?.is_some() => gkat::describe(),
            _ => Err(unknown(name)),
        };
    }
    let name = args.name.as_deref().unwrap_or_default();
    let meant = meant(name)?;
    let (Some(inputs), Some(out)) = (&args.inputs, &args.out) else {
        return Err(Failure(format!("eval {name}: give --inputs FILE.npz|.safetensors and --out FILE")));
    };
    arrays::check_target(out)?;
    super::keep_input(inputs, out)?;
    let on_graph = [
        ("--graph", args.graph.is_some()),
        ("--grid", args.grid.is_some()),
        ("--directed", args.directed),
        ("--transposed", args.transposed),
    ];
    let of_kernels = [("--param", !args.params.is_empty()), ("--dim", !args.dims.is_empty())];
    let of_codes: Vec<_> = on_graph.iter().chain(&of_kernels).copied().collect();
    let (others, kind) = match meant {
        Meant::Kernel(_) => (&on_graph[..], "a kernel"),
        Meant::Position(_) => (&of_codes[..], "a position code, whose options stand in its name"),
        _ => (&of_kernels[..], "a mask or a layer, whose options stand in its name"),
    };
    if let Some((option, _)) = others.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure(format!("{name}: {option} has no meaning for {kind}; leave it out")));
    }
    let arrays = arrays::read(inputs)?;
    // Before any work: a .npy file has no room for a second result.
    arrays::check_count(out, outputs_of(&meant, &arrays))?;
    let outputs = match meant {
        Meant::Kernel(spec) => evaluate(spec, args, &arrays)?,
        Meant::Position(spec) => position::evaluate(&spec, args, &arrays)?,
        Meant::Mask(mask) => {
            let y = mask::evaluate(&mask, args, &mut Tensors::new(name, &arrays, args))?;
            // As many axes as what was given.
            let like = arrays.get("x").or_else(|| arrays.get("v"));
            BTreeMap::from([("y".to_string(), flattened(&y, like.map_or(4, |a| a.shape.len())))])
        }
        Meant::Layer(mask) => {
            let results = gkat::evaluate(mask, args, &mut Tensors::new(name, &arrays, args))?;
            let axes = arrays.get("x").map_or(4, |a| a.shape.len());
            results.iter().map(|(name, result)| (name.to_string(), flattened(result, axes))).collect()
        }
    };
    warn_about(name, &outputs);
    arrays::write(out, &outputs)?;
    for (name, array) in &outputs {
        print_line(&format!("{name} {:?} -> {}", array.shape, out.display()))?;
    }
    Ok(())
}

/// How many arrays a run gives.
fn outputs_of(meant: &Meant, arrays: &BTreeMap<String, Array>) -> usize {
    match meant {
        Meant::Kernel(spec) => spec.ports.iter().filter(|port| port.access == Access::Write).count(),
        Meant::Position(_) => 2,
        Meant::Mask(_) => 1,
        Meant::Layer(_) => 1 + usize::from(gkat::has_readout(|name| arrays.contains_key(name))),
    }
}

/// Everything whose name holds the word.
fn list(word: Option<&str>) -> Outcome {
    let kernels = KERNELS.iter().map(|k| (k.name, k.formula.to_string()));
    let masks = mask::KINDS.iter().map(|m| (m.name, format!("{}, the mask {}", m.formula, m.words)));
    let layers = [(gkat::NAME, gkat::FORMULA.to_string())];
    let codes = position::listed().map(|(name, formula)| (name, formula.to_string()));
    let all = kernels.chain(masks).chain(layers).chain(codes);
    let rows: Vec<_> = all.filter(|(name, _)| word.is_none_or(|word| name.contains(word))).collect();
    if let (Some(word), true) = (word, rows.is_empty()) {
        return Err(unknown(word));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().try_for_each(|(name, formula)| print_line(&format!("{name:width$}  {formula}")))
}

fn meant(name: &str) -> Result<Meant, Failure> {
    if let Some(spec) = find(name) {
        return Ok(Meant::Kernel(spec));
    }
    if mask::kind_of(name).is_some() {
        return Ok(Meant::Mask(name.parse()?));
    }
    if EncodingSpec::is_meant(name) {
        return Ok(Meant::Position(name.parse()?));
    }
    gkat::meant(name)?.map(Meant::Layer).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Failure {
    let word = name.split(':').next().unwrap_or_default();
    let kernels = || KERNELS.iter().map(|k| k.name);
    let masks = mask::KINDS.iter().map(|m| m.name);
    let mut close: Vec<_> =
        kernels().filter(|k| !word.is_empty() && (k.contains(word) || word.contains(k))).collect();
    if close.is_empty() {
        let codes = position::listed().map(|(name, _)| name);
        close.extend(closest(word, masks.chain([gkat::NAME]).chain(codes).chain(kernels())));
    }
    let hint = if close.is_empty() {
        "see `wgattn eval --list`".into()
    } else {
        format!("did you mean {}?", close.join(", "))
    };
    Failure(format!("nothing is called {name:?}; {hint}"))
}

fn describe(spec: &'static KernelSpec) -> Outcome {
    print_line(&format!("{}: {}\n  source: {}", spec.name, spec.formula, spec.source))?;
    print_line(&format!("  on wgpu: {}", on_wgpu(spec)))?;
    print_line(&format!("  on CUDA: {}", on_cuda(spec)))?;
    for port in spec.ports {
        let direction = if port.access == Access::Read { "in " } else { "out" };
        let optional = if port.optional { ", optional" } else { "" };
        let shared = if port.broadcast { ", b and h may be 1" } else { "" };
        print_line(&format!(
            "  {direction} {} [{}] {}{optional}{shared}",
            port.name,
            port.dims.join(", "),
            port.dtype
        ))?;
    }
    let defaults = (spec.defaults)();
    for field in spec.params {
        let bytes = field.bytes_in(spec.params, &defaults);
        let value = match field.number {
            Number::F32 => shortest(&bytemuck::pod_read_unaligned::<f32>(bytes)),
            Number::U32 => bytemuck::pod_read_unaligned::<u32>(bytes).to_string(),
        };
        let role = if field.role == Role::Fixed { ", compiled in" } else { "" };
        print_line(&format!("  --param {}={value}  {}{role}", field.name, field.doc.trim()))?;
    }
    Ok(())
}

/// What a kernel is on wgpu: its variants, the first choice of each kind of device told.
fn on_wgpu(spec: &KernelSpec) -> String {
    let OnWgpu::Shader(variants) = spec.wgpu else {
        return "expands into smaller kernels, chosen from shape and device".into();
    };
    if let [only] = variants {
        return format!("one shader, {}", only.name);
    }
    let driver = |driver: &Driver| match driver {
        Driver::Gpu => "GPUs",
        Driver::Llvmpipe => "llvmpipe",
        Driver::SwiftShader => "SwiftShader",
    };
    let named = |variant: &Variant| match variant.preferred_on {
        [] => variant.name.to_string(),
        drivers => {
            let drivers: Vec<&str> = drivers.iter().map(driver).collect();
            format!("{} (first choice on {})", variant.name, drivers.join(", "))
        }
    };
    format!("variants {}", variants.iter().map(named).collect::<Vec<_>>().join(", "))
}

/// What a kernel is on CUDA: its sources, a library and what follows it, or what it expands into in its own test cases.
fn on_cuda(spec: &'static KernelSpec) -> String {
    match &spec.cuda {
        OnCuda::Source([only]) => format!("one source, {} (shaders/{})", only.name, only.file),
        OnCuda::Source(sources) => {
            let names: Vec<&str> = sources.iter().map(|source| source.name).collect();
            let mut files: Vec<String> =
                sources.iter().map(|source| format!("shaders/{}", source.file)).collect();
            files.dedup();
            format!("the first that suits of {} ({})", names.join(", "), files.join(", "))
        }
        OnCuda::Library(library, after) => {
            format!("{}, then shaders/{} for what it leaves undone", library.title(), after.file)
        }
        OnCuda::Expand => {
            let into = expanded(spec);
            let into = if into.is_empty() { String::new() } else { format!(": {}", into.join(", ")) };
            format!("expands into smaller kernels, chosen from shape{into}")
        }
    }
}

/// The kernels into which a kernel expands on CUDA in its test cases, in order of appearance; none in a build without CUDA.
fn expanded(spec: &'static KernelSpec) -> Vec<&'static str> {
    let mut names = Vec::new();
    let Some(caps) = crate::backend::cuda::caps() else { return names };
    for case in spec.cases.iter().filter(|case| !case.bench) {
        let graph = Concrete::of(spec, case).and_then(|concrete| concrete.graph());
        let Ok(schedule) = graph.and_then(|(graph, ..)| graph.schedule(Lowering::Cuda(caps))) else {
            continue;
        };
        for step in &schedule.steps {
            if !names.contains(&step.kernel.name) {
                names.push(step.kernel.name);
            }
        }
    }
    names
}

/// Parameter bytes: the defaults with what was given.
fn parameters(spec: &'static KernelSpec, given: &[String]) -> Result<Vec<u8>, Failure> {
    let mut bytes = (spec.defaults)();
    for entry in given {
        let names = || spec.params.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        let (key, value) =
            entry.split_once('=').ok_or_else(|| Failure(format!("--param {entry}: expected key=value")))?;
        let Some(index) = spec.params.iter().position(|f| f.name == key) else {
            return Err(Failure(format!("{} has no parameter {key:?}; it has [{}]", spec.name, names())));
        };
        let wrong = |e: &dyn std::fmt::Display| Failure(format!("--param {entry}: {e}"));
        let word = match spec.params[index].number {
            Number::F32 => value.parse::<f32>().map_err(|e| wrong(&e))?.to_le_bytes(),
            Number::U32 => value.parse::<u32>().map_err(|e| wrong(&e))?.to_le_bytes(),
        };
        bytes[4 * index..4 * index + 4].copy_from_slice(&word);
    }
    Ok(bytes)
}

/// Says what a result tells about itself: a failed or rescued inverse, numbers that are not finite.
fn warn_about(what: &str, outputs: &BTreeMap<String, Array>) {
    for (name, array) in outputs {
        let values: Vec<f64> = match &array.data {
            ArrayData::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            ArrayData::F64(v) => v.clone(),
            _ => continue,
        };
        let bad = values.iter().filter(|x| !x.is_finite()).count();
        if bad > 0 {
            notice(format_args!(
                "{what}: {bad} of {} of `{name}` {} not finite",
                counted(values.len(), "element", "elements"),
                plural(bad, "is", "are")
            ));
        }
        if name == "status" {
            for (code, how) in
                [(1.0, "inverted by Cholesky"), (2.0, "inverted by Cholesky with 10 ε"), (3.0, "FAILED")]
            {
                let count = values.chunks_exact(4).filter(|s| s[3] == code).count();
                if count > 0 {
                    let matrices = counted(count, "landmark matrix", "landmark matrices");
                    notice(format_args!("{what}: {matrices} {how}"));
                }
            }
        }
    }
}

/// An array as the tensor of a port: the port's element type, with leading dimensions of 1 where the array has fewer.
fn host(spec: &KernelSpec, port: &Port, array: &Array) -> Result<HostTensor, Failure> {
    let wrong = |reason: String| {
        Failure(format!(
            "{}: port `{}` wants {} [{}]: {reason}",
            spec.name,
            port.name,
            port.dtype,
            port.dims.join(", ")
        ))
    };
    let mut dims: Vec<u32> = Vec::new();
    for &size in &array.shape {
        dims.push(u32::try_from(size).map_err(|_| wrong(format!("a dimension of {size} is too large")))?);
    }
    let missing = port.dims.len().saturating_sub(dims.len());
    let may_lead = port.dims.iter().take(missing).all(|d| *d == "b" || *d == "h");
    if dims.len() > port.dims.len() && !(port.dtype == DType::Rgba8 && dims.len() == 3)
        || (missing > 0 && !may_lead)
    {
        return Err(wrong(format!("the array has shape {:?}", array.shape)));
    }
    dims.splice(0..0, std::iter::repeat_n(1, missing));
    let cast = |what: &str| wrong(format!("the array holds {what}"));
    let data = match (port.dtype, &array.data) {
        (DType::F32, ArrayData::F32(v)) => HostData::F32(v.clone()),
        // The device computes in f32; the CPU reference keeps the doubles.
        (DType::F32, ArrayData::F64(v)) => HostData::F64(v.clone()),
        (DType::U32, ArrayData::U32(v)) => HostData::U32(v.clone()),
        (DType::U32, ArrayData::I32(v)) => {
            let words: Result<Vec<u32>, _> = v.iter().map(|x| u32::try_from(*x)).collect();
            HostData::U32(words.map_err(|_| cast("negative numbers"))?)
        }
        (DType::I32, ArrayData::I32(v)) => HostData::I32(v.clone()),
        (DType::U8, ArrayData::U8(v)) => HostData::U8(v.clone()),
        (DType::Rgba8, ArrayData::U8(v)) if dims.len() == 3 && dims[2] == 4 => {
            dims.pop();
            HostData::Rgba8(v.chunks_exact(4).map(|p| [p[0], p[1], p[2], p[3]]).collect())
        }
        (_, data) => return Err(cast(data.dtype())),
    };
    Ok(HostTensor::new(Shape::new(&dims)?, data)?)
}

/// Sizes of all dimensions from the inputs and from --dim; dimensions only outputs have follow from the kernel's own
/// check, or must be given.
fn sizes(spec: &KernelSpec, inputs: &[Option<HostTensor>], given: &[String]) -> Result<Dims, Failure> {
    let mut dims = Dims::default();
    for broadcast in [false, true] {
        for (port, tensor) in spec.ports.iter().zip(inputs).filter(|(p, _)| p.broadcast == broadcast) {
            let Some(tensor) = tensor else { continue };
            for (name, &size) in port.dims.iter().zip(tensor.shape().dims()) {
                let known = dims.find(name).unwrap_or(0);
                if name.parse::<u32>().is_err() && (known == 0 || (broadcast && known == 1)) {
                    dims.set(name, size);
                }
            }
        }
    }
    for entry in given {
        let wrong = || {
            Failure(format!(
                "--dim {entry}: expected name=size with a dimension of [{}]",
                spec.dim_names().join(", ")
            ))
        };
        let (name, size) = entry.split_once('=').ok_or_else(wrong)?;
        let name = spec.dim_names().into_iter().find(|n| *n == name).ok_or_else(wrong)?;
        dims.set(name, size.parse().map_err(|_| wrong())?);
    }
    Ok(dims)
}

fn evaluate(
    spec: &'static KernelSpec,
    args: &Args,
    arrays: &BTreeMap<String, Array>,
) -> Result<BTreeMap<String, Array>, Failure> {
    for name in arrays.keys() {
        if spec.port_index(name).is_none_or(|i| spec.ports[i].access == Access::Write) {
            let ports: Vec<_> =
                spec.ports.iter().filter(|p| p.access == Access::Read).map(|p| p.name).collect();
            return Err(Failure(format!(
                "{}: the inputs hold `{name}`, which is no input; inputs are [{}]",
                spec.name,
                ports.join(", ")
            )));
        }
    }
    let mut inputs = Vec::new();
    for port in spec.ports {
        let array = arrays.get(port.name).filter(|_| port.access == Access::Read);
        let tensor = array.map(|a| host(spec, port, a)).transpose()?;
        if let (Some(tensor), false) = (&tensor, args.allow_nonfinite) {
            tensor.check_finite(port.name)?;
        }
        if let (Some(tensor), false) = (&tensor, args.unchecked) {
            check_meaning(spec, port.name, tensor)?;
        }
        inputs.push(tensor);
    }
    let params = parameters(spec, &args.params)?;
    let mut dims = sizes(spec, &inputs, &args.dims)?;
    if let Some(complete) = spec.output_dims {
        complete(&mut dims, &params);
    }
    let mut graph = Graph::new(spec.name);
    let mut tensors = Vec::new();
    for (port, input) in spec.ports.iter().zip(&inputs) {
        tensors.push(match (port.access, input) {
            (Access::Read, Some(input)) => Some(graph.input(port.name, input.shape(), port.dtype)),
            (Access::Read, None) => None,
            (Access::Write, _) => {
                let mut shape = Vec::new();
                for name in port.dims {
                    let known = name.parse().ok().or_else(|| dims.find(name));
                    shape.push(match known {
                        Some(size) => size,
                        None if *name == "b" || *name == "h" => 1,
                        None => {
                            return Err(Failure(format!(
                                "{}: no input tells dimension `{name}`; give --dim {name}=SIZE",
                                spec.name
                            )));
                        }
                    });
                }
                Some(graph.transient(port.name, Shape::new(&shape)?, port.dtype))
            }
        });
    }
    graph.pass_bytes(spec, &params, &tensors)?;
    let given: Vec<_> = tensors
        .iter()
        .zip(&inputs)
        .filter_map(|(tensor, input)| Some(((*tensor)?, input.as_ref()?)))
        .collect();
    let written: Vec<_> = spec
        .ports
        .iter()
        .zip(&tensors)
        .filter(|(port, _)| port.access == Access::Write)
        .filter_map(|(port, tensor)| Some((port.name, (*tensor)?)))
        .collect();
    let results = network::run(spec.name, args, &mut graph, &given, &written)?;
    Ok(written.iter().zip(&results).map(|((name, _), result)| (name.to_string(), array_of(result))).collect())
}

fn array_of(tensor: &HostTensor) -> Array {
    let mut shape: Vec<usize> = tensor.shape().dims().iter().map(|&d| d as usize).collect();
    let data = match tensor.data() {
        HostData::F32(v) => ArrayData::F32(v.clone()),
        HostData::F64(v) => ArrayData::F64(v.clone()),
        HostData::U32(v) => ArrayData::U32(v.clone()),
        HostData::I32(v) => ArrayData::I32(v.clone()),
        HostData::U8(v) => ArrayData::U8(v.clone()),
        HostData::Rgba8(v) => {
            shape.push(4);
            ArrayData::U8(v.as_flattened().to_vec())
        }
    };
    Array { shape, data }
}

/// A result with this many axes: leading ones that the inputs did not have are left out.
fn flattened(tensor: &HostTensor, axes: usize) -> Array {
    let mut array = array_of(tensor);
    while array.shape.len() > axes && array.shape.first() == Some(&1) {
        array.shape.remove(0);
    }
    array
}

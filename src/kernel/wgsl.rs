//! From a kernel's description to checked WGSL: put the text together, reflect it with naga, compare both by name.
//!
//! A shader is a generated head (constants and the `Params` block), the shared modules, and the kernel's own file,
//! joined by plain concatenation: everything that follows the head is standard WGSL. The `Params` block holds, in
//! this order: the kernel's live parameters, the size of every named dimension, `batch_from` (first head of the
//! window that this dispatch covers), `group_from` and `groups` (the first workgroup of this dispatch, and the end
//! of those that have work: long work is dispatched in parts), and for each port `<port>_at`, the element at which the window begins
//! inside its binding; a port shared between heads also has `<port>_b` and `<port>_h`, its strides.

use crate::error::{Error, Result};
use crate::kernel::{Access, Class, Constant, Field, KernelSpec, Number, Port, Role, Variant};
use crate::tensor::{DType, Dims};
use std::fmt::Write as _;

/// Width of the textures that hold tensors as lists of `vec4f`.
pub const TEXTURE_WIDTH: u32 = 2048;
/// Size of the uniform block that holds a window of a tensor: the default limit of WebGPU.
pub const UNIFORM_BYTES: u64 = 65_536;

/// One word of the uniform block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamWord {
    /// A live parameter: its index in the parameter struct.
    Live(usize),
    /// Size of a dimension.
    Dim(&'static str),
    /// First head of the window.
    BatchFrom,
    /// First workgroup of this dispatch.
    GroupFrom,
    /// End of the workgroups with work.
    Groups,
    /// Where a port begins in its binding, in elements.
    At(usize),
    /// A shared port's elements per batch element.
    StrideB(usize),
    /// A shared port's elements per head.
    StrideH(usize),
}

/// Words of the uniform block with their names and WGSL types, in order.
pub fn param_words(spec: &KernelSpec) -> Vec<(String, &'static str, ParamWord)> {
    let live = spec.params.iter().enumerate().filter(|(_, f)| f.role == Role::Live);
    let mut words: Vec<_> =
        live.map(|(i, f)| (f.name.to_string(), wgsl_type(f), ParamWord::Live(i))).collect();
    words.extend(spec.dim_names().into_iter().map(|n| (n.to_string(), "u32", ParamWord::Dim(n))));
    words.push(("batch_from".into(), "u32", ParamWord::BatchFrom));
    words.push(("group_from".into(), "u32", ParamWord::GroupFrom));
    words.push(("groups".into(), "u32", ParamWord::Groups));
    for (i, port) in spec.ports.iter().enumerate().filter(|(_, p)| p.dtype != DType::Rgba8 && !p.groups) {
        words.push((format!("{}_at", port.name), "u32", ParamWord::At(i)));
        if port.broadcast {
            words.push((format!("{}_b", port.name), "u32", ParamWord::StrideB(i)));
            words.push((format!("{}_h", port.name), "u32", ParamWord::StrideH(i)));
        }
    }
    words
}

fn wgsl_type(field: &Field) -> &'static str {
    match field.number {
        Number::F32 => "f32",
        Number::U32 => "u32",
    }
}

/// WGSL with what a backend must know about it.
#[derive(Clone, Debug)]
pub struct Composed {
    /// Kernel and variant, for labels and messages.
    pub name: String,
    /// The joined text.
    pub source: String,
    /// Bindings in order of their numbers.
    pub bindings: Vec<Binding>,
    /// Bytes of workgroup memory, rounded up to 16 per variable.
    pub workgroup_bytes: u32,
    /// Workgroup size.
    pub workgroup_size: [u32; 3],
}

/// One binding of a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Number in group 0.
    pub number: u32,
    /// The port it belongs to; `None` for the uniform block.
    pub port: Option<usize>,
    /// What kind of resource it is.
    pub resource: Resource,
}

/// What a shader expects at a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A storage buffer.
    Storage {
        /// Whether the shader writes it.
        write: bool,
    },
    /// A uniform buffer.
    Uniform,
    /// A sampled 2-D float texture.
    Texture,
    /// An `rgba8unorm` storage texture that is written.
    StorageTexture,
}

/// Joins a variant's text for one shape and one set of fixed parameters.
///
/// `present[i]` says whether port `i` is given: an optional port gets a constant `HAS_<PORT>`.
pub fn join(spec: &KernelSpec, variant: &Variant, dims: &Dims, params: &[u8], present: &[bool]) -> String {
    let mut text = format!("// {} ({}): {}\n", spec.name, variant.name, spec.formula);
    for (name, value) in (variant.constants)(dims) {
        let _ = match value {
            Constant::U32(v) => writeln!(text, "const {name}: u32 = {v}u;"),
            Constant::Bool(v) => writeln!(text, "const {name}: bool = {v};"),
        };
    }
    for field in spec.params.iter().filter(|f| f.role == Role::Fixed) {
        let bytes = field.bytes_in(spec.params, params);
        let name = field.name.to_uppercase();
        let _ = match field.number {
            Number::U32 => {
                writeln!(text, "const {name}: u32 = {}u;", bytemuck::pod_read_unaligned::<u32>(bytes))
            }
            Number::F32 => {
                writeln!(text, "const {name}: f32 = {:e};", bytemuck::pod_read_unaligned::<f32>(bytes))
            }
        };
    }
    for (port, present) in spec.ports.iter().zip(present).filter(|(p, _)| p.optional) {
        let _ = writeln!(text, "const HAS_{}: bool = {present};", port.name.to_uppercase());
    }
    text.push_str("struct Params {\n");
    for (name, ty, _) in param_words(spec) {
        let _ = writeln!(text, "  {name}: {ty},");
    }
    text.push_str("}\n@group(0) @binding(0) var<uniform> params: Params;\n");
    for shared in variant.shared {
        text.push_str(shared.body);
    }
    text.push_str(variant.body);
    text
}

/// Joins, parses, validates and checks a variant against its description.
///
/// Errors: [`Error::Shader`] with the file and line, [`Error::Interface`] naming the binding that disagrees.
pub fn compose(
    spec: &KernelSpec,
    variant: &Variant,
    dims: &Dims,
    params: &[u8],
    present: &[bool],
) -> Result<Composed> {
    let name = format!("{}/{}", spec.name, variant.name);
    let source = join(spec, variant, dims, params, present);
    let module = naga::front::wgsl::parse_str(&source).map_err(|e| {
        let line = e.location(&source).map_or(0, |l| l.line_number as usize);
        let report = format!("{}: {}", origin(variant, &source, line), e.emit_to_string(&source));
        Error::Shader { kernel: name.clone(), report }
    })?;
    let info =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::SUBGROUP)
            .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
            .subgroup_operations(naga::valid::SubgroupOperationSet::all())
            .validate(&module)
            .map_err(|e| {
                let line = e.location(&source).map_or(0, |l| l.line_number as usize);
                let report = format!("{}: {}", origin(variant, &source, line), e.emit_to_string(&source));
                Error::Shader { kernel: name.clone(), report }
            })?;
    reflect(spec, variant, name, source, &module, &info)
}

/// The file and line that a line of the joined text comes from.
fn origin(variant: &Variant, source: &str, line: usize) -> String {
    let body_lines = variant.body.lines().count();
    let mut at = source.lines().count() - body_lines;
    if line > at {
        return format!("shaders/{}:{}", variant.file, line - at);
    }
    for shared in variant.shared.iter().rev() {
        at -= shared.body.lines().count();
        if line > at {
            return format!("shaders/{}:{}", shared.file, line - at);
        }
    }
    format!("generated head, line {line}")
}

fn reflect(
    spec: &KernelSpec,
    variant: &Variant,
    name: String,
    source: String,
    module: &naga::Module,
    info: &naga::valid::ModuleInfo,
) -> Result<Composed> {
    let bad =
        |port: &str, reason: String| Error::Interface { kernel: name.clone(), port: port.into(), reason };
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).map_err(|e| bad("types", e.to_string()))?;
    let mut bindings = Vec::new();
    let mut workgroup_bytes = 0;
    for (_, global) in module.global_variables.iter() {
        let global_name = global.name.as_deref().unwrap_or("?");
        if global.space == naga::AddressSpace::WorkGroup {
            workgroup_bytes += layouter[global.ty].size.next_multiple_of(16);
            continue;
        }
        let Some(binding) = &global.binding else { continue };
        let inner = &module.types[global.ty].inner;
        let resource =
            resource_of(global.space, inner).ok_or_else(|| bad(global_name, "has an odd type".into()))?;
        let port = spec.port_index(global_name);
        match port {
            None if global_name == "params" => {}
            None => return Err(bad(global_name, "is bound but is no port of the kernel".into())),
            Some(i) => check_binding(&spec.ports[i], variant, resource, inner, module)
                .map_err(|reason| bad(global_name, reason))?,
        }
        bindings.push(Binding { number: binding.binding, port, resource });
    }
    bindings.sort_by_key(|b| b.number);
    for (i, port) in spec.ports.iter().enumerate() {
        if port.groups == bindings.iter().any(|b| b.port == Some(i)) {
            let reason = if port.groups {
                "counts workgroups: the dispatch reads it, not the shader"
            } else {
                "is a port but the shader does not bind it"
            };
            return Err(bad(port.name, reason.into()));
        }
    }
    if bindings.iter().enumerate().any(|(i, b)| b.number as usize != i) {
        return Err(bad("bindings", "must be numbered from 0 without gaps".into()));
    }
    let entry = module.entry_points.first().ok_or_else(|| bad("main", "is missing".into()))?;
    let _ = info;
    Ok(Composed {
        name: name.clone(),
        source,
        bindings,
        workgroup_bytes,
        workgroup_size: entry.workgroup_size,
    })
}

fn resource_of(space: naga::AddressSpace, inner: &naga::TypeInner) -> Option<Resource> {
    match (space, inner) {
        (naga::AddressSpace::Uniform, _) => Some(Resource::Uniform),
        (naga::AddressSpace::Storage { access }, _) => {
            Some(Resource::Storage { write: access.contains(naga::StorageAccess::STORE) })
        }
        (naga::AddressSpace::Handle, naga::TypeInner::Image { class, .. }) => match class {
            naga::ImageClass::Sampled { .. } => Some(Resource::Texture),
            naga::ImageClass::Storage { .. } => Some(Resource::StorageTexture),
            _ => None,
        },
        _ => None,
    }
}

fn check_binding(
    port: &Port,
    variant: &Variant,
    resource: Resource,
    inner: &naga::TypeInner,
    module: &naga::Module,
) -> std::result::Result<(), String> {
    let class = variant.classes.iter().find(|(n, _)| *n == port.name).map_or(Class::Storage, |(_, c)| *c);
    let write = port.access == Access::Write;
    let expected = match (port.dtype, class) {
        (DType::Rgba8, _) if write => Resource::StorageTexture,
        (DType::Rgba8, _) | (_, Class::Texture) => Resource::Texture,
        (_, Class::Uniform) => Resource::Uniform,
        (_, Class::Storage) => Resource::Storage { write },
    };
    if resource != expected {
        return Err(format!("is {resource:?} in the shader but the description says {expected:?}"));
    }
    let naga::TypeInner::Array { base, .. } = inner else { return Ok(()) };
    let element = &module.types[*base].inner;
    let vector = matches!(element, naga::TypeInner::Vector { .. });
    let kind = match element {
        naga::TypeInner::Scalar(s)
        | naga::TypeInner::Vector { scalar: s, .. }
        | naga::TypeInner::Atomic(s) => s.kind,
        _ => return Err("is no array of scalars or vectors".into()),
    };
    let wanted = match port.dtype {
        DType::F32 => naga::ScalarKind::Float,
        DType::I32 => naga::ScalarKind::Sint,
        DType::U32 | DType::U8 | DType::Rgba8 => naga::ScalarKind::Uint,
    };
    if kind != wanted {
        return Err(format!("holds {kind:?} in the shader but {} in the description", port.dtype));
    }
    if class == Class::Storage && vector != variant.vec4.contains(&port.name) {
        return Err("reads vec4f in one of shader and description only (Variant::vec4)".into());
    }
    Ok(())
}

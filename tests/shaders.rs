//! Every shader as it is joined for every kernel, variant and case: checked against its description, translated to what
//! Vulkan, Metal, Direct3D and GL drivers get, searched for what some of them refuse, and compiled by a browser.

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use wgattn::kernel::wgsl::{Resource, compose, join, param_words};
use wgattn::kernel::{Caps, Case, Driver, KernelSpec, OnWgpu, Variant};
use wgattn::kernels::KERNELS;
use wgattn::tensor::Dims;

mod support;

/// One joined text, and what it came from first.
#[derive(Clone)]
struct Shader {
    name: String,
    spec: &'static KernelSpec,
    variant: &'static Variant,
    case: &'static Case,
}

impl Shader {
    fn parts(&self) -> (Dims, Vec<u8>, Vec<bool>) {
        let present = self.spec.ports.iter().map(|p| !self.case.absent.contains(&p.name)).collect();
        (Dims::of(self.case.dims), (self.case.params)(), present)
    }

    fn text(&self) -> String {
        let (dims, params, present) = self.parts();
        join(self.spec, self.variant, &dims, &params, &present)
    }
}

/// A test of one shader, and what went wrong.
type Check = fn(&Shader) -> Result<(), String>;

/// A device with the default limits of WebGPU but this much workgroup memory.
fn caps(workgroup_bytes: u32) -> Caps {
    Caps {
        driver: Driver::Gpu,
        workgroup_bytes,
        invocations: 256,
        storage_binding: 128 << 20,
        buffer: 256 << 20,
        storage_buffers: 8,
        texture_rows: 8192,
        storage_alignment: 256,
        groups: 65_535,
        loop_rounds: u64::MAX,
        subgroup_lanes: 8,
        memory_budget: 192 << 20,
    }
}

fn suitable(spec: &'static KernelSpec, case: &'static Case, caps: &Caps) -> Vec<Shader> {
    let OnWgpu::Shader(variants) = &spec.wgpu else {
        return Vec::new();
    };
    let (dims, params) = (Dims::of(case.dims), (case.params)());
    let fit = variants.iter().filter(|v| (v.suits)(&dims, &params, caps));
    let name = |v: &Variant| format!("{}/{}/{}", spec.name, v.name, case.name);
    fit.map(|variant| Shader { name: name(variant), spec, variant, case }).collect()
}

/// All different texts.
fn shaders() -> Vec<Shader> {
    let mut by_text = BTreeMap::new();
    for spec in KERNELS {
        for shader in spec.cases.iter().flat_map(|case| suitable(spec, case, &caps(u32::MAX))) {
            by_text.entry(shader.text()).or_insert(shader);
        }
    }
    let mut list: Vec<_> = by_text.into_values().collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn main() {
    let args = Arguments::from_args();
    let all = Arc::new(shaders());
    let tests: [(&str, Check); 3] = [
        ("checks_and_translates", translates),
        ("params_lie_where_the_host_puts_them", layout),
        ("avoids_what_drivers_refuse", lint),
    ];
    let mut trials = Vec::new();
    for (test, run) in tests {
        for shader in all.iter().cloned() {
            trials.push(Trial::test(format!("{}::{test}", shader.name), move || {
                run(&shader).map_err(Failed::from)
            }));
        }
    }
    for &spec in KERNELS.iter().filter(|k| matches!(k.wgpu, OnWgpu::Shader(_))) {
        for bytes in [16_384, 8192] {
            let name = format!("{}::has_a_variant_for_{bytes}_bytes_of_workgroup_memory", spec.name);
            trials.push(Trial::test(name, move || fits(spec, bytes).map_err(Failed::from)));
        }
    }
    trials.push(Trial::test("lint::finds_what_it_looks_for", || lint_works().map_err(Failed::from)));
    trials.push(match support::browser_absent() {
        Some(reason) => {
            support::absent("browser::compiles_every_shader", &reason, support::browser_required())
        }
        None => Trial::test("browser::compiles_every_shader", move || browser(&all).map_err(Failed::from)),
    });
    libtest_mimic::run(&args, trials).exit();
}

struct Parsed {
    module: naga::Module,
    info: naga::valid::ModuleInfo,
}

fn parse(text: &str) -> Result<Parsed, String> {
    let module = naga::front::wgsl::parse_str(text).map_err(|e| e.emit_to_string(text))?;
    let info =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::SUBGROUP)
            .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
            .subgroup_operations(naga::valid::SubgroupOperationSet::all())
            .validate(&module)
            .map_err(|e| e.emit_to_string(text))?;
    Ok(Parsed { module, info })
}

fn translates(shader: &Shader) -> Result<(), String> {
    let (dims, params, present) = shader.parts();
    let composed =
        compose(shader.spec, shader.variant, &dims, &params, &present).map_err(|e| e.to_string())?;
    let parsed = parse(&composed.source)?;
    spirv(&parsed).map_err(|e| format!("SPIR-V: {e}"))?;
    msl(&parsed).map_err(|e| format!("MSL: {e}"))?;
    hlsl(&parsed).map_err(|e| format!("HLSL: {e}"))?;
    // GLSL ES 3.10 has no subgroups; such a variant needs a device that says it has them, which GL's do not.
    if shader.variant.subgroup_lanes == 0 {
        glsl(&parsed).map_err(|e| format!("GLSL: {e}"))?;
    }
    Ok(())
}

/// Bindings with numbers, in declaration order.
fn bindings(module: &naga::Module) -> impl Iterator<Item = (naga::ResourceBinding, &naga::GlobalVariable)> {
    module.global_variables.iter().filter_map(|(_, global)| Some((global.binding?, global)))
}

fn spirv(Parsed { module, info }: &Parsed) -> Result<(), String> {
    use naga::back::spv;
    let options = spv::Options { lang_version: (1, 3), ..Default::default() };
    let entry = spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: "main".into() };
    let words = spv::write_vec(module, info, &options, Some(&entry)).map_err(|e| e.to_string())?;
    if words.first() == Some(&0x0723_0203) { Ok(()) } else { Err("no SPIR-V came out".into()) }
}

fn msl(Parsed { module, info }: &Parsed) -> Result<(), String> {
    use naga::back::msl;
    let mut slots = msl::EntryPointResources { sizes_buffer: Some(30), ..Default::default() };
    for (place, global) in bindings(module) {
        let number = place.binding as u8;
        let is_texture = global.space == naga::AddressSpace::Handle;
        let mutable = match (&module.types[global.ty].inner, global.space) {
            (_, naga::AddressSpace::Storage { access }) => access.contains(naga::StorageAccess::STORE),
            (naga::TypeInner::Image { class: naga::ImageClass::Storage { .. }, .. }, _) => true,
            _ => false,
        };
        let target = msl::BindTarget {
            buffer: (!is_texture).then_some(number),
            texture: is_texture.then_some(number),
            mutable,
            ..Default::default()
        };
        slots.resources.insert(place, target);
    }
    let options = msl::Options {
        lang_version: (2, 4),
        per_entry_point_map: [("main".to_string(), slots)].into(),
        fake_missing_bindings: false,
        zero_initialize_workgroup_memory: false,
        ..Default::default()
    };
    let (text, translation) = msl::write_string(module, info, &options, &msl::PipelineOptions::default())
        .map_err(|e| e.to_string())?;
    translation.entry_point_names.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    if text.contains("kernel void") { Ok(()) } else { Err("no kernel came out".into()) }
}

fn hlsl(Parsed { module, info }: &Parsed) -> Result<(), String> {
    use naga::back::hlsl;
    let target = |number: u32| hlsl::BindTarget { space: 0, register: number, ..Default::default() };
    let options = hlsl::Options {
        shader_model: hlsl::ShaderModel::V6_0,
        binding_map: bindings(module).map(|(place, _)| (place, target(place.binding))).collect(),
        fake_missing_bindings: false,
        zero_initialize_workgroup_memory: false,
        ..Default::default()
    };
    let entry = hlsl::PipelineOptions::default();
    let mut text = String::new();
    let made = hlsl::Writer::new(&mut text, &options, &entry)
        .write(module, info, None)
        .map_err(|e| e.to_string())?;
    made.entry_point_names.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    if text.contains("numthreads") { Ok(()) } else { Err("no compute shader came out".into()) }
}

fn glsl(Parsed { module, info }: &Parsed) -> Result<(), String> {
    use naga::back::glsl;
    let options = glsl::Options {
        version: glsl::Version::new_gles(310),
        binding_map: bindings(module).map(|(place, _)| (place, place.binding as u8)).collect(),
        zero_initialize_workgroup_memory: false,
        ..Default::default()
    };
    let entry = glsl::PipelineOptions {
        shader_stage: naga::ShaderStage::Compute,
        entry_point: "main".into(),
        multiview: None,
    };
    let mut text = String::new();
    let policies = naga::proc::BoundsCheckPolicies::default();
    let writer = glsl::Writer::new(&mut text, module, info, &options, &entry, policies);
    writer.and_then(|mut w| w.write()).map_err(|e| e.to_string())?;
    if text.contains("local_size_x") { Ok(()) } else { Err("no compute shader came out".into()) }
}

/// Case C19: the shader reads each parameter at the offset at which the host writes it.
fn layout(shader: &Shader) -> Result<(), String> {
    let parsed = parse(&shader.text())?;
    let found = parsed.module.types.iter().find(|(_, t)| t.name.as_deref() == Some("Params"));
    let Some(naga::TypeInner::Struct { members, span }) = found.map(|(_, t)| &t.inner) else {
        return Err("there is no struct `Params`".into());
    };
    let words = param_words(shader.spec);
    if members.len() != words.len() || *span != 4 * words.len() as u32 {
        return Err(format!(
            "Params has {} members in {span} bytes, the host writes {} words",
            members.len(),
            words.len()
        ));
    }
    for (index, (member, (name, _, _))) in members.iter().zip(&words).enumerate() {
        if member.name.as_ref() != Some(name) || member.offset != 4 * index as u32 {
            return Err(format!(
                "word {index}: the shader has {:?} at byte {}, the host `{name}`",
                member.name, member.offset
            ));
        }
    }
    Ok(())
}

/// Cases C16 and C17, by our own accounting: wgpu does not check workgroup memory. A kernel may leave its largest shapes
/// to other kernels, but then its variants must say that those do not suit.
fn fits(spec: &'static KernelSpec, bytes: u32) -> Result<(), String> {
    let limits = caps(bytes);
    let mut fitting_cases = 0;
    for case in spec.cases {
        let mut refused = Vec::new();
        let mut fit = false;
        for shader in suitable(spec, case, &limits) {
            let (dims, params, present) = shader.parts();
            let made = compose(spec, shader.variant, &dims, &params, &present).map_err(|e| e.to_string())?;
            let is_storage = |r: Resource| matches!(r, Resource::Storage { .. });
            let storage = made.bindings.iter().filter(|b| is_storage(b.resource)).count() as u32;
            let threads = made.workgroup_size.iter().product::<u32>();
            let memory = made.workgroup_bytes;
            fit |= memory <= bytes && storage <= limits.storage_buffers && threads <= limits.invocations;
            let name = shader.variant.name;
            refused.push(format!("{name}: {memory} bytes, {storage} storage buffers, {threads} threads"));
        }
        if !fit && !refused.is_empty() {
            return Err(format!("case {}: {}", case.name, refused.join("; ")));
        }
        fitting_cases += u32::from(fit);
    }
    if fitting_cases > 0 { Ok(()) } else { Err("no variant suits any case".into()) }
}

/// What must not stand in a shader, with the reason.
fn complaints(text: &str) -> Vec<String> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for call in ["exp", "exp2", "tanh", "pow", "sinh", "cosh"] {
        if calls(&code, call) {
            found.push(format!(
                "calls the driver's `{call}`, which errs or overflows on some (C06); use shared/exp.wgsl"
            ));
        }
    }
    let dense: String = code.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
    for spelling in ["bitcast<f32>(0x7f8", "bitcast<f32>(0xff8", "bitcast<f32>(0x7fc", "bitcast<f32>(0xffc"] {
        if dense.contains(spelling) {
            found.push(format!(
                "spells an infinity or NaN as `{spelling}`, which does not compile everywhere (C07)"
            ));
        }
    }
    if divides_by_zero(&dense) {
        found.push("divides by a literal 0, which does not compile everywhere (C07)".into());
    }
    for line in code.lines().map(str::trim).filter(|l| l.starts_with("const ") && l.contains("array")) {
        found.push(format!("has a constant array, which FXC refuses when indexed at run time (C12): {line}"));
    }
    if code.lines().any(|l| l.trim_start().starts_with("enable ")) {
        found.push("has an `enable` line, which naga does not parse (C14)".into());
    }
    found
}

/// Whether the code calls a function of exactly this name.
fn calls(code: &str, function: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(function).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + function.len()..].trim_start();
        !before.is_some_and(word) && after.starts_with('(')
    })
}

/// Whether some quotient's divisor is a literal 0, in code without spaces.
fn divides_by_zero(dense: &str) -> bool {
    dense.match_indices('/').any(|(at, _)| {
        let number: String =
            dense[at + 1..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        number.contains('0') && number.chars().all(|c| c == '0' || c == '.')
    })
}

fn lint(shader: &Shader) -> Result<(), String> {
    let found = complaints(&shader.text());
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

fn lint_works() -> Result<(), String> {
    let bad = [
        "let y = exp(x);",
        "let y = exp (x);",
        "y=2.0*pow(x, 2.0);",
        "let y = tanh(x);",
        "let y = bitcast<f32>(0x7f800000u);",
        "let y = bitcast<f32>( 0xFF800000u );",
        "let y = -1.0 / 0.0;",
        "let y = 1f/0f;",
        "const TABLE = array<f32, 2>(1.0, 2.0);",
        "const TABLE: array<f32, 2> = array(1.0, 2.0);",
        "enable subgroups;",
    ];
    let good = [
        "let y = exp_accurate(x);",
        "// exp(x) would err",
        "let bad = (bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u;",
        "var<workgroup> tile: array<f32, 64>;",
        "let y = 1.0 / 0.05;",
        "let y = x / 10.0;",
        "fn my_pow(x: f32) -> f32 { return x; }",
    ];
    match (bad.iter().find(|t| complaints(t).is_empty()), good.iter().find(|t| !complaints(t).is_empty())) {
        (Some(missed), _) => Err(format!("does not see `{missed}`")),
        (None, Some(blamed)) => Err(format!("complains about `{blamed}`: {:?}", complaints(blamed))),
        (None, None) => Ok(()),
    }
}

/// Tint checks the uniformity of control flow, which naga does not.
fn browser(shaders: &[Shader]) -> Result<(), String> {
    let entry = |s: &Shader| serde_json::json!({ "name": s.name, "wgsl": s.text(), "entry": "main", "subgroups": s.variant.subgroup_lanes > 0 });
    let list = serde_json::Value::Array(shaders.iter().map(entry).collect());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shaders.json");
    std::fs::write(&path, list.to_string()).map_err(|e| format!("{}: {e}", path.display()))?;
    let run = Command::new(support::node())
        .arg(support::browser_scripts().join("check.mjs"))
        .arg(&path)
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&run.stdout);
    let report: serde_json::Value =
        said.lines().last().and_then(|l| serde_json::from_str(l).ok()).unwrap_or_default();
    if run.status.success() && report["ok"] == true && report["shaders"] == shaders.len() {
        println!("{said}");
        return Ok(());
    }
    Err(format!("{said}{}", String::from_utf8_lossy(&run.stderr)))
}

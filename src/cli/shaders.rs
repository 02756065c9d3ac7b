//! `wgattn shaders`: the joined WGSL of kernels, to read, to compile elsewhere, or to send to a driver's authors.

use super::{Failure, Outcome, print_line};
use crate::kernel::KernelSpec;
use crate::kernels::KERNELS;

/// Arguments of `wgattn shaders`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Kernel name, or kernel/variant; all kernels if left out
    kernel: Option<String>,
}

/// Prints the text that each variant has for the kernel's first case that it suits.
pub(super) fn run(args: &Args) -> Outcome {
    let wanted = |spec: &&&'static KernelSpec| {
        args.kernel.as_ref().is_none_or(|k| k.split('/').next() == Some(spec.name))
    };
    let found: Vec<_> = KERNELS.iter().filter(wanted).collect();
    if let (Some(name), true) = (&args.kernel, found.is_empty()) {
        return Err(Failure(format!("no kernel is called {name:?}; `wgattn eval --list` lists them")));
    }
    for spec in found {
        print_spec(spec, args.kernel.as_deref().and_then(|k| k.split_once('/')).map(|(_, v)| v))?;
    }
    Ok(())
}

#[cfg(not(feature = "wgpu"))]
fn print_spec(_: &'static KernelSpec, _: Option<&str>) -> Outcome {
    Err(crate::Error::NotBuilt { feature: "wgpu" }.into())
}

#[cfg(feature = "wgpu")]
fn print_spec(spec: &'static KernelSpec, variant: Option<&str>) -> Outcome {
    use crate::kernel::{OnWgpu, wgsl};
    use crate::tensor::Dims;
    let OnWgpu::Shader(variants) = &spec.wgpu else {
        return print_line(&format!("// {}: expands into other kernels", spec.name));
    };
    if let Some(wanted) = variant.filter(|wanted| variants.iter().all(|v| v.name != *wanted)) {
        let names: Vec<_> = variants.iter().map(|v| v.name).collect();
        return Err(Failure(format!(
            "{} has no variant {wanted:?}; it has [{}]",
            spec.name,
            names.join(", ")
        )));
    }
    for one in variants.iter().filter(|v| variant.is_none_or(|wanted| wanted == v.name)) {
        let Some(case) = spec.cases.first() else { continue };
        let present: Vec<bool> = spec.ports.iter().map(|p| !case.absent.contains(&p.name)).collect();
        print_line(&wgsl::join(spec, one, &Dims::of(case.dims), &(case.params)(), &present))?;
    }
    Ok(())
}

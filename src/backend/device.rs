//! Choosing a device by what a person asked for: `auto`, `cpu`, an index, a name, or a wgpu backend.

use super::cpu::CpuBackend;
use super::{Backend, DeviceInfo};
use crate::error::{Error, Result};
use crate::words::{counted, plural};

/// An opened device and what the user should know about the choice.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub backend: Box<dyn Backend>,
    /// Why it is not what one might expect: a software driver, no GPU driver at all, adapters left out.
    pub notices: Vec<String>,
}

/// Position in `list` of the adapter that was asked for by index, by name or by wgpu backend; the second value is a
/// notice where several fit.
///
/// Errors: [`Error::NoDevice`] with the whole list.
pub fn choose(list: &[DeviceInfo], asked: &str) -> Result<(usize, Option<String>)> {
    let say = |i: usize| format!("{i}: {} ({})", list[i].name, list[i].backend);
    let known = || (0..list.len()).map(say).collect::<Vec<_>>().join(", ");
    let none = |reason: String| Error::NoDevice { asked: asked.into(), reason };
    if let Ok(index) = asked.parse::<usize>() {
        return if index < list.len() {
            Ok((index, None))
        } else {
            Err(none(format!(
                "there {} {} [{}]; see `wgattn devices`",
                plural(list.len(), "is", "are"),
                counted(list.len(), "adapter", "adapters"),
                known()
            )))
        };
    }
    let wanted = asked.to_lowercase();
    let fits = |d: &DeviceInfo| d.name.to_lowercase().contains(&wanted) || d.backend == wanted;
    let found: Vec<usize> = (0..list.len()).filter(|&i| fits(&list[i])).collect();
    match found[..] {
        [] => Err(none(format!("use auto, cpu, or the index or name of one of [{}]", known()))),
        [only] => Ok((only, None)),
        [first, ..] => {
            let all = found.iter().map(|&i| say(i)).collect::<Vec<_>>().join(", ");
            Ok((
                first,
                Some(format!(
                    "several adapters fit {asked:?} [{all}]: taking {}; ask by index for another",
                    say(first)
                )),
            ))
        }
    }
}

/// Opens what was asked for.
///
/// `auto` takes the best adapter that passes its self-test, and the CPU reference where there is none; both are
/// announced. A device asked for by name or index is never replaced by another.
///
/// Errors: [`Error::NoDevice`], [`Error::NotBuilt`], a failed self-test of a device asked for.
pub fn open(asked: &str) -> Result<Opened> {
    match asked.to_lowercase().as_str() {
        "cpu" => Ok(Opened { backend: Box::new(CpuBackend), notices: Vec::new() }),
        "cuda" => Err(Error::NotBuilt { feature: "cuda" }),
        "auto" => Ok(auto()),
        _ => by_name(asked),
    }
}

#[cfg(not(feature = "wgpu"))]
fn auto() -> Opened {
    let notice = "built without the wgpu feature: computing on the CPU reference";
    Opened { backend: Box::new(CpuBackend), notices: vec![notice.into()] }
}

#[cfg(not(feature = "wgpu"))]
fn by_name(_: &str) -> Result<Opened> {
    super::wgpu::WgpuBackend::headless().map(|never| match never {})
}

#[cfg(feature = "wgpu")]
mod adapters {
    use super::super::wgpu::{Options, WgpuBackend, adapters, device_info, self_test};
    use super::super::{Backend as _, DeviceKind};
    use super::{CpuBackend, Error, Opened, Result, choose};

    fn opened(backend: WgpuBackend, mut notices: Vec<String>) -> Opened {
        if backend.info().kind == DeviceKind::Software {
            notices.push(format!("{} is a software driver: it computes on the CPU", backend.info().name));
        }
        Opened { backend: Box::new(backend), notices }
    }

    pub(super) fn auto() -> Opened {
        let mut notices = Vec::new();
        for adapter in adapters() {
            let left_out =
                |e: &dyn std::fmt::Display| format!("adapter {} is left out: {e}", adapter.get_info().name);
            let backend = match WgpuBackend::on_adapter(&adapter, Options::default()) {
                Ok(backend) => backend,
                Err(e) => {
                    notices.push(left_out(&e));
                    continue;
                }
            };
            match self_test(&backend) {
                Ok(()) => return opened(backend, notices),
                Err(e) => notices.push(left_out(&e)),
            }
        }
        notices.push(
            "no usable GPU driver found: computing on the CPU reference, which is slow but exact".into(),
        );
        Opened { backend: Box::new(CpuBackend), notices }
    }

    pub(super) fn by_name(asked: &str) -> Result<Opened> {
        let list = adapters();
        let infos: Vec<_> = list.iter().map(|a| device_info(&a.get_info())).collect();
        let (index, notice) = choose(&infos, asked)?;
        let backend = WgpuBackend::on_adapter(&list[index], Options::default())?;
        self_test(&backend).map_err(|e| Error::Unsupported {
            device: infos[index].name.clone(),
            missing: format!("{e}; choose another device"),
        })?;
        Ok(opened(backend, notice.into_iter().collect()))
    }
}

#[cfg(feature = "wgpu")]
use adapters::{auto, by_name};

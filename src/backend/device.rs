//! Choosing a device by what a person asked for: `auto`, `cpu`, an index, a name, or a wgpu backend.

use super::cpu::CpuBackend;
use super::{Backend, DeviceInfo, Listener, Tuning, cuda};
use crate::error::{Error, Result};
use crate::words::{counted, plural};
use std::sync::Arc;

/// An opened device and what the user should know about the choice.
#[derive(Debug)]
pub struct Opened {
    /// The device.
    pub backend: Box<dyn Backend>,
    /// Its place in the list of adapters (`wgattn devices`); `None` for what is no adapter: the CPU reference, CUDA.
    pub index: Option<usize>,
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
    if asked.trim().is_empty() {
        // Part of every name.
        return Err(none(format!(
            "this names none; use auto, cpu, cuda:0, or the index or name of one of [{}]",
            known()
        )));
    }
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
        [] => Err(none(format!("use auto, cpu, cuda:0, or the index or name of one of [{}]", known()))),
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

/// What is known of a device beyond its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Place in the list of adapters, or of a card among those of CUDA; `None` for the CPU reference.
    pub index: Option<usize>,
    /// PCI vendor and device number, `10de:2330`; `None` where it has none.
    pub pci: Option<String>,
    /// Where it sits on the PCI bus, so that two equal cards can be told apart; `None` where the driver does not say.
    pub bus: Option<String>,
    /// Whether it has timestamps.
    pub timestamps: bool,
    /// Smallest and largest subgroup, if it has subgroups.
    pub subgroup: Option<[u32; 2]>,
    /// What CUDA says of a card; `None` for other devices.
    pub card: Option<CardFacts>,
}

/// What CUDA says of a card, and what runs it. `None` where it is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardFacts {
    /// Compute capability, major and minor.
    pub compute_capability: [u32; 2],
    /// Multiprocessors.
    pub multiprocessors: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Bytes of the cache that all multiprocessors share.
    pub l2_bytes: Option<u64>,
    /// Highest clock of the multiprocessors, in Hz.
    pub clock_hz: Option<u64>,
    /// Highest clock of the memory, in Hz.
    pub memory_clock_hz: Option<u64>,
    /// Bits that memory gives in one of its cycles.
    pub memory_bus_bits: Option<u64>,
    /// CUDA version of the driver, `12.4`.
    pub driver: String,
    /// Version of the compiler, `12.9`.
    pub nvrtc: Option<String>,
    /// Version of the library of products.
    pub cublas: Option<String>,
    /// Version of the library of transforms.
    pub cufft: Option<String>,
    /// What products are computed in, `f32`, `tf32` or `bf16`, once the card is opened.
    pub products: Option<&'static str>,
}

/// An NVIDIA card of this machine, before it is opened.
#[derive(Clone, Debug)]
pub struct Card {
    /// What it is asked for by, `cuda:0`.
    pub device: String,
    /// What it is.
    pub info: DeviceInfo,
    /// Where it is, and what the driver says of it.
    pub facts: Facts,
    /// What it cannot be used for, and why; empty where all is well.
    pub lacks: Vec<String>,
}

impl std::fmt::Display for Card {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bus = self.facts.bus.as_deref().unwrap_or("unknown");
        write!(f, "{}  {} · {} · PCI {bus}", self.device, self.info.name, self.info.driver)?;
        if let Some(count) = self.facts.card.as_ref().and_then(|card| card.multiprocessors) {
            write!(f, " · {}", counted(count, "multiprocessor", "multiprocessors"))?;
        }
        self.lacks.iter().try_for_each(|lack| write!(f, " · {lack}"))
    }
}

impl Opened {
    /// What is known of the device beyond its name.
    pub fn facts(&self) -> Facts {
        facts(self.index, self.backend.as_ref())
    }
}

/// What a device is called where others may have its name: with its backend, and its place on the bus where that is known.
pub fn full_name(info: &DeviceInfo, facts: &Facts) -> String {
    let place = facts.bus.as_ref().map_or_else(String::new, |bus| format!(" · {bus}"));
    format!("{} · {}{place}", info.name, info.backend)
}

/// What is known of an opened device beyond its name: by its place in the list of adapters, or by itself.
pub fn facts(index: Option<usize>, backend: &dyn Backend) -> Facts {
    index.and_then(facts_of_adapter).unwrap_or_else(|| backend.facts())
}

#[cfg(not(feature = "wgpu"))]
fn facts_of_adapter(_: usize) -> Option<Facts> {
    None
}

#[cfg(feature = "wgpu")]
fn facts_of_adapter(index: usize) -> Option<Facts> {
    let report = super::wgpu::list_adapters().into_iter().nth(index)?;
    let (low, high) = report.subgroup_sizes;
    Some(Facts {
        index: Some(index),
        pci: (report.vendor != 0).then(|| format!("{:04x}:{:04x}", report.vendor, report.device)),
        bus: Some(report.pci_bus).filter(|bus| !bus.is_empty()),
        timestamps: report.timestamps,
        subgroup: (high > 0).then_some([low, high]),
        card: None,
    })
}

/// A device that was asked for and could not be opened: a run on several goes on without it, says so in what it writes, and fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What it was asked for by: `device cuda:0`.
    pub asked: String,
    /// Why it could not be opened, in one line.
    pub reason: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is left out: {}", self.asked, self.reason)
    }
}

#[cfg(feature = "cli")]
impl Missing {
    /// A list of them as JSON: `{asked, reason}` each.
    pub fn json(list: &[Self]) -> serde_json::Value {
        let one = |missing: &Self| serde_json::json!({ "asked": missing.asked, "reason": missing.reason });
        list.iter().map(one).collect()
    }

    /// Why a run fails that had to do without them; `None` where there are none.
    pub fn failure(list: &[Self]) -> Option<String> {
        let asked: Vec<&str> = list.iter().map(|missing| missing.asked.as_str()).collect();
        (!asked.is_empty()).then(|| format!("{} could not be opened", asked.join(", ")))
    }
}

/// All adapters in order of preference; none in a build without them.
pub fn list() -> Vec<DeviceInfo> {
    #[cfg(feature = "wgpu")]
    return super::wgpu::list_adapters().into_iter().map(|report| report.info).collect();
    #[cfg(not(feature = "wgpu"))]
    Vec::new()
}

/// Names of backends that can be asked for; `cpu` is the reference.
const BACKENDS: [&str; 6] = ["vulkan", "dx12", "metal", "gl", "cuda", "cpu"];

/// A word that asks for a card, by its number: `cuda` is `cuda:0`.
fn card(word: &str) -> String {
    let number = word.strip_prefix("cuda:").unwrap_or("0");
    number.parse::<usize>().map_or_else(|_| word.into(), |number| format!("cuda:{number}"))
}

/// Several devices for one run, as [`open`] wants to be asked: `auto`, `cpu`, `cuda:0`, or places in `list`. Each once, in the order asked for.
///
/// `asked` holds words as [`open`] takes them, and `all` for every adapter; `backends`, if any, keeps only devices of these. Without
/// `asked`, backends stand for all their devices, and nothing at all for `auto`.
///
/// The second list says what there is none of among several backends that were asked for, and which of several adapters a name took.
///
/// Errors: [`Error::NoDevice`] for what there is not, with the reason where CUDA is missing; [`Error::NotBuilt`] for adapters in a build
/// without them.
pub fn select(
    list: &[DeviceInfo],
    asked: &[String],
    backends: &[String],
) -> Result<(Vec<String>, Vec<String>)> {
    let none = |asked: &str, reason: String| Error::NoDevice { asked: asked.into(), reason };
    let backends: Vec<String> = backends.iter().map(|b| b.to_lowercase()).collect();
    for backend in &backends {
        if !BACKENDS.contains(&backend.as_str()) {
            let known = format!("one of [{}]", BACKENDS.join(", "));
            return Err(Error::value(
                "backend",
                known,
                backend,
                "see `wgattn devices` for those that are here",
            ));
        }
    }
    let kept = |place: &str| {
        let other = if cuda::is_asked(place) { "cuda" } else { "cpu" };
        let backend = place.parse::<usize>().map_or(other, |i| list[i].backend.as_str());
        backends.is_empty() || backends.iter().any(|b| b == backend)
    };
    let absent = |backend: &str| !list.iter().any(|d| d.backend == backend);
    let (mut places, mut told): (Vec<String>, Vec<String>) = Default::default();
    let mut add = |place: String| {
        if !places.contains(&place) {
            places.push(place);
        }
    };
    let every = (0..list.len()).map(|i| i.to_string());
    if asked.is_empty() && !backends.is_empty() {
        let mut cards = Vec::new();
        for backend in &backends {
            match backend.as_str() {
                "cpu" => {}
                "cuda" => match cuda::cards() {
                    Ok(found) => cards.extend(found.into_iter().map(|card| card.device)),
                    Err(reason) if backends.len() == 1 => {
                        let also = "an NVIDIA card is also reached through vulkan";
                        return Err(none("cuda", format!("{reason}; {also}")));
                    }
                    Err(reason) => told.push(format!("no device of cuda: {reason}")),
                },
                _ if backends.len() > 1 && absent(backend) => {
                    told.push(format!("no device of {backend} here"));
                }
                _ => {}
            }
        }
        every.chain(cards).chain(["cpu".to_string()]).filter(|p| kept(p)).for_each(add);
    } else {
        for word in asked.iter().map(|w| w.trim().to_lowercase()) {
            match word.as_str() {
                "all" if list.is_empty() && !cfg!(feature = "wgpu") => {
                    return Err(Error::NotBuilt { feature: "wgpu" });
                }
                "all" => {
                    // Without CUDA there is nothing more to tell: nobody has asked for it by name.
                    let cards = cuda::cards().unwrap_or_default().into_iter().map(|card| card.device);
                    every.clone().chain(cards).filter(|p| kept(p)).for_each(&mut add);
                }
                "auto" if backends.is_empty() => add(word),
                // The best of the list, whose backend is known before it is opened.
                "auto" => every.clone().find(|p| kept(p)).into_iter().for_each(&mut add),
                _ if cuda::is_asked(&word) => {
                    Some(card(&word)).filter(|p| kept(p)).into_iter().for_each(&mut add);
                }
                "cpu" => Some(word).filter(|p| kept(p)).into_iter().for_each(&mut add),
                _ if list.is_empty() && !cfg!(feature = "wgpu") => {
                    return Err(Error::NotBuilt { feature: "wgpu" });
                }
                // As with `backends`: the others run.
                backend if asked.len() > 1 && BACKENDS.contains(&backend) && absent(backend) => {
                    told.push(format!("no device of {backend} here"));
                }
                _ => {
                    let (index, notice) = choose(list, &word)?;
                    told.extend(notice);
                    Some(index.to_string()).filter(|p| kept(p)).into_iter().for_each(&mut add);
                }
            }
        }
        if asked.is_empty() {
            add("auto".into());
        }
    }
    if places.is_empty() {
        let words = if asked.is_empty() { backends.join(",") } else { asked.join(",") };
        let kept = if backends.is_empty() { String::new() } else { format!(" of {}", backends.join(", ")) };
        let known: Vec<String> = list.iter().map(|d| format!("{} ({})", d.name, d.backend)).collect();
        let reason = match known.is_empty() {
            true => "there is no adapter; install a driver (Debian: mesa-vulkan-drivers)".into(),
            false => format!("there is no such adapter{kept}; there are [{}]", known.join(", ")),
        };
        return Err(none(&words, reason));
    }
    Ok((places, told))
}

/// Opens what was asked for, with variants of kernels as its driver's class prefers them: [`open_tuned`] without tuning.
///
/// Errors: as there.
pub fn open(asked: &str) -> Result<Opened> {
    open_tuned(asked, Tuning::Off, None)
}

/// Opens what was asked for; `tuning` says when variants of kernels are chosen by measuring them, what is found is remembered in the
/// user's caches, and `listener` hears of it (the logger, where there is none).
///
/// `auto` takes the best adapter that passes its self-test, and the CPU reference where there is none; both are
/// announced. A device asked for by name or index is never replaced by another.
///
/// Errors: [`Error::NoDevice`], [`Error::NotBuilt`], a failed self-test of a device asked for.
pub fn open_tuned(asked: &str, tuning: Tuning, listener: Option<Arc<dyn Listener>>) -> Result<Opened> {
    match asked.to_lowercase().as_str() {
        "cpu" => Ok(Opened { backend: Box::new(CpuBackend), index: None, notices: Vec::new() }),
        word if cuda::is_asked(word) => {
            Ok(Opened { backend: cuda::open(word)?, index: None, notices: Vec::new() })
        }
        "auto" => Ok(auto(tuning, listener)),
        _ => by_name(asked, tuning, listener),
    }
}

#[cfg(not(feature = "wgpu"))]
fn auto(_: Tuning, _: Option<Arc<dyn Listener>>) -> Opened {
    let notice = "built without the wgpu feature: computing on the CPU reference";
    Opened { backend: Box::new(CpuBackend), index: None, notices: vec![notice.into()] }
}

#[cfg(not(feature = "wgpu"))]
fn by_name(_: &str, _: Tuning, _: Option<Arc<dyn Listener>>) -> Result<Opened> {
    super::wgpu::WgpuBackend::headless().map(|never| match never {})
}

#[cfg(feature = "wgpu")]
mod adapters {
    use super::super::wgpu::{
        Options, TuningOptions, WgpuBackend, adapters, cache_folder, device_info, self_test,
    };
    use super::super::{Backend as _, DeviceKind};
    use super::{Arc, CpuBackend, Error, Listener, Opened, Result, Tuning, choose};

    fn options(when: Tuning, listener: Option<Arc<dyn Listener>>) -> Options {
        let tuning = TuningOptions { when, folder: cache_folder(), listener, ..TuningOptions::default() };
        Options { tuning, ..Options::default() }
    }

    fn opened(backend: WgpuBackend, index: usize, mut notices: Vec<String>) -> Opened {
        if backend.info().kind == DeviceKind::Software {
            notices.push(format!("{} is a software driver: it computes on the CPU", backend.info().name));
        }
        Opened { backend: Box::new(backend), index: Some(index), notices }
    }

    pub(super) fn auto(tuning: Tuning, listener: Option<Arc<dyn Listener>>) -> Opened {
        let mut notices = Vec::new();
        for (index, adapter) in adapters().into_iter().enumerate() {
            let left_out =
                |e: &dyn std::fmt::Display| format!("adapter {} is left out: {e}", adapter.get_info().name);
            let backend = match WgpuBackend::on_adapter(&adapter, options(tuning, listener.clone())) {
                Ok(backend) => backend,
                Err(e) => {
                    notices.push(left_out(&e));
                    continue;
                }
            };
            match self_test(&backend.without_tuning()) {
                Ok(()) => return opened(backend, index, notices),
                Err(e) => notices.push(left_out(&e)),
            }
        }
        notices.push(
            "no usable GPU driver found: computing on the CPU reference, which is slow but exact".into(),
        );
        Opened { backend: Box::new(CpuBackend), index: None, notices }
    }

    pub(super) fn by_name(
        asked: &str,
        tuning: Tuning,
        listener: Option<Arc<dyn Listener>>,
    ) -> Result<Opened> {
        let list = adapters();
        let infos: Vec<_> = list.iter().map(|a| device_info(&a.get_info())).collect();
        let (index, notice) = choose(&infos, asked)?;
        let backend = WgpuBackend::on_adapter(&list[index], options(tuning, listener))?;
        self_test(&backend.without_tuning()).map_err(|e| Error::Unsupported {
            device: infos[index].name.clone(),
            missing: format!("{e}; choose another device"),
        })?;
        Ok(opened(backend, index, notice.into_iter().collect()))
    }
}

#[cfg(feature = "wgpu")]
use adapters::{auto, by_name};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::DeviceKind;

    fn device(name: &str, backend: &str) -> DeviceInfo {
        DeviceInfo {
            name: name.into(),
            backend: backend.into(),
            kind: DeviceKind::Discrete,
            driver: String::new(),
        }
    }

    fn selected(asked: &[&str], backends: &[&str]) -> Result<Vec<String>> {
        // Two equal cards, and one of them through another backend.
        let list = [device("RTX", "vulkan"), device("RTX", "vulkan"), device("RTX", "gl")];
        let words = |list: &[&str]| list.iter().map(|w| (*w).to_string()).collect::<Vec<_>>();
        select(&list, &words(asked), &words(backends)).map(|(places, _)| places)
    }

    #[test]
    fn devices_are_selected_by_words_places_and_backends() {
        for (asked, backends, expected) in [
            (&[][..], &[][..], &["auto"][..]),
            (&["0", "2"], &[], &["0", "2"]),
            (&["all"], &[], &["0", "1", "2"]),
            (&["all", "cpu", "1"], &[], &["0", "1", "2", "cpu"]),
            (&["gl"], &[], &["2"]),
            (&["rtx"], &[], &["0"]),
            (&["all"], &["GL"], &["2"]),
            (&[], &["vulkan", "cpu"], &["0", "1", "cpu"]),
            (&["auto"], &["gl"], &["2"]),
            (&[], &["gl", "dx12"], &["2"]),
            // The same device under two words, and a backend that is not here among others.
            (&["0", "rtx", "00"], &[], &["0"]),
            (&["cuda", "cuda:0", "CUDA:00"], &[], &["cuda:0"]),
            (&["gl", "metal"], &[], &["2"]),
        ] {
            assert_eq!(
                selected(asked, backends).expect("there are such"),
                expected,
                "{asked:?} {backends:?}"
            );
        }
    }

    #[test]
    fn backends_without_a_device_are_told_where_others_have_some() {
        let list = [device("RTX", "vulkan")];
        let (places, told) = select(&list, &[], &["vulkan".into(), "metal".into()]).expect("one of two");
        assert_eq!((places, told), (vec!["0".to_string()], vec!["no device of metal here".to_string()]));
    }

    #[test]
    fn what_there_is_not_is_refused_with_what_there_is() {
        for (asked, backends, told) in [
            (&["3"][..], &[][..], "there are 3 adapters"),
            (&["radeon"], &[], "RTX"),
            (&[""], &[], "this names none; use auto"),
            (&["0", " "], &[], "this names none; use auto"),
            (&["all"], &["metal"], "no such adapter of metal"),
            (&[], &["opencl"], "expected one of [vulkan"),
            (&[], &["cuda"], "reached through vulkan"),
        ] {
            let error = selected(asked, backends).expect_err("there is no such").to_string();
            assert!(error.contains(told), "{asked:?} {backends:?}: {error}");
        }
    }
}

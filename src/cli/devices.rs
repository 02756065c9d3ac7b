//! `wgattn devices`: every adapter with what matters to compute, and the CPU reference; or what tuning remembers of them.

#[cfg(feature = "wgpu")]
mod tuned;

use super::{Outcome, print_line};
use crate::backend::cpu::CpuBackend;
use crate::backend::device::Card;
use crate::backend::{Backend as _, DeviceInfo};
use serde_json::json;

/// Arguments of `wgattn devices`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List the variants of kernels that tuning chose on each adapter, and where they are remembered
    #[cfg(feature = "wgpu")]
    #[arg(long)]
    tuned: bool,
    /// Forget them, so that they are searched for again
    #[cfg(feature = "wgpu")]
    #[arg(long, conflicts_with = "tuned")]
    forget_tuned: bool,
}

fn fields(info: &DeviceInfo) -> serde_json::Value {
    json!({ "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver })
}

/// A card as JSON.
fn card(card: &Card) -> serde_json::Value {
    let mut json = fields(&card.info);
    json["device"] = json!(card.device);
    let numbers = card.facts.pci.as_deref().and_then(|pci| pci.split_once(':'));
    let number = |text: Option<&str>| text.and_then(|text| u32::from_str_radix(text, 16).ok());
    json["pci"] = json!({
        "bus": card.facts.bus,
        "vendor": number(numbers.map(|(vendor, _)| vendor)),
        "device": number(numbers.map(|(_, device)| device)),
    });
    json["cuda"] = json!(card.facts.card.as_ref().map(crate::bench::document::card_json));
    json["lacks"] = json!(card.lacks);
    json
}

/// Lists the devices.
pub(super) fn run(args: &Args) -> Outcome {
    #[cfg(feature = "wgpu")]
    if args.tuned || args.forget_tuned {
        return tuned::run(args.json, args.forget_tuned);
    }
    let adapters = list();
    let cpu = CpuBackend.info();
    let cuda = crate::backend::cuda::cards();
    if args.json {
        let mut devices: Vec<serde_json::Value> = adapters.iter().map(|(json, _)| json.clone()).collect();
        let mut reference = fields(&cpu);
        reference["index"] = json!("cpu");
        devices.push(reference);
        let cuda = match &cuda {
            Ok(cards) => json!({ "cards": cards.iter().map(card).collect::<Vec<_>>(), "unavailable": null }),
            Err(reason) => json!({ "cards": [], "unavailable": reason }),
        };
        let all = json!({ "devices": devices, "cuda": cuda });
        return print_line(&serde_json::to_string_pretty(&all)?);
    }
    for (_, lines) in &adapters {
        print_line(lines)?;
    }
    if adapters.is_empty() {
        print_line("no adapters: no Vulkan, Metal, DX12 or GL driver was found")?;
    }
    print_line(&format!("cpu  {}", cpu.name))?;
    match cuda {
        Ok(cards) => cards.iter().try_for_each(|card| print_line(&card.to_string())),
        Err(reason) => print_line(&format!("CUDA: not available ({reason})")),
    }
}

#[cfg(not(feature = "wgpu"))]
fn list() -> Vec<(serde_json::Value, String)> {
    Vec::new()
}

#[cfg(feature = "wgpu")]
fn list() -> Vec<(serde_json::Value, String)> {
    crate::backend::wgpu::list_adapters().iter().map(describe).collect()
}

#[cfg(feature = "wgpu")]
fn describe(report: &crate::backend::wgpu::AdapterReport) -> (serde_json::Value, String) {
    let (info, (low, high)) = (&report.info, report.subgroup_sizes);
    let mut json = fields(info);
    json["index"] = json!(report.index);
    json["pci"] = json!({ "vendor": report.vendor, "device": report.device, "bus": report.pci_bus });
    json["subgroup_sizes"] = if high == 0 { json!(null) } else { json!([low, high]) };
    json["timestamps"] = json!(report.timestamps);
    json["limits"] = report.limits.iter().map(|(name, value)| ((*name).to_string(), json!(value))).collect();
    let subgroups = match (low, high) {
        (_, 0) => "no subgroups".into(),
        (low, high) if low == high => format!("subgroups of {low}"),
        (low, high) => format!("subgroups of {low} to {high}"),
    };
    let timestamps = if report.timestamps { "timestamps" } else { "no timestamps" };
    let bus = if report.pci_bus.is_empty() { String::new() } else { format!(" at {}", report.pci_bus) };
    let mut lines = format!(
        "{}    {}\n     PCI {:04x}:{:04x}{bus} · {subgroups} · {timestamps}",
        report.index,
        info.told(),
        report.vendor,
        report.device
    );
    for (name, value) in &report.limits {
        lines.push_str(&format!("\n     {name} {value}"));
    }
    (json, lines)
}

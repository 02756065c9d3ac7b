//! What a report says of the machine and its devices: head, cards with the figures that people quote, peaks, hashes of kernels.

use super::{badge, device_name, escaped, fact, number_cell};
use crate::bench::published::{Device, Document, Roof, positive};
use crate::bench::system::short_commit;
use crate::bench::units::{LONGEST, NONE, memory, moment, or_dash, prefixed, score, share, shortened, time};
use crate::words::counted;
use std::fmt::Write as _;

/// Title, machine, program, and what keeps the report from being whole.
pub(super) fn head(title: &str, document: &Document) -> String {
    let system = &document.system;
    let cores = system.cores.map(|n| counted(n as u64, "core", "cores"));
    let memory = system.memory_bytes.map(|b| format!("{} of memory", memory(b)));
    let machine: Vec<String> = [system.cpu.clone(), cores, memory, system.os.clone(), system.arch.clone()]
        .into_iter()
        .flatten()
        .collect();
    let commit = document.commit.as_ref().map_or_else(String::new, |c| format!(" ({})", short_commit(c)));
    let mut text = format!(
        "<h1>{}</h1>\n<p class=\"sub\">wgattn {}{} · {} · {}</p>\n",
        escaped(title),
        escaped(&document.program),
        escaped(&commit),
        escaped(&moment(&document.date)),
        escaped(&machine.join(", "))
    );
    if !document.complete {
        text += "<p class=\"alert\">This run was cut short or is still going on: rows and suites are missing.</p>\n";
    }
    for device in &document.left_out {
        text += &format!("<p class=\"alert\">Left out: {}</p>\n", escaped(device));
    }
    if document.devices.is_empty() {
        text += "<p class=\"alert\">No device was measured.</p>\n";
    }
    text
}

/// The geometric mean of the shares of bounds that rows reach.
pub(in crate::bench) fn mean_share(device: &Device) -> Option<f64> {
    let logs: Vec<f64> = device
        .rows
        .iter()
        .filter(|r| r.failure.is_none())
        .filter_map(|r| positive(r.share))
        .map(f64::ln)
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Rows that ran, failed, and were wrong.
pub(in crate::bench) fn counts(device: &Device) -> [usize; 3] {
    let failed = device.rows.iter().filter(|r| r.failure.is_some()).count();
    let wrong = device.rows.iter().filter(|r| r.failure.is_none() && r.is_wrong()).count();
    [device.rows.len() - failed - wrong, failed, wrong]
}

/// One card per device.
pub(super) fn cards(document: &Document) -> String {
    let cards: String = document.devices.iter().map(card).collect();
    format!("<div class=\"cards\">\n{cards}</div>\n")
}

fn card(device: &Device) -> String {
    let [ran, failed, wrong] = counts(device);
    let mut badges = badge("", &device.backend) + &badge("", &device.kind);
    if device.computes_on_cpu() {
        badges += &badge("warn", "computes on the CPU: judged by CPU seconds");
    }
    if device.timestamps == Some(false) {
        badges += &badge("warn", "no timestamps: times include submission");
    }
    badges += &badge("good", &format!("{} right", counted(ran, "row", "rows")));
    if failed > 0 {
        badges += &badge("bad", &format!("{failed} failed"));
    }
    if wrong > 0 {
        badges += &badge("bad", &format!("{wrong} wrong"));
    }
    let unit = if device.computes_on_cpu() { "/CPU s" } else { "/s" };
    let roof = |name: &str, work: &str| or_dash(device.roof(name), |x| prefixed(x, &format!("{work}{unit}")));
    let mut facts = fact("big", "Score", &score(device.score));
    facts += &fact("big", "Mean share of bound", &share(mean_share(device)));
    facts += &fact("", "Fused multiply-adds", &roof("flop", "FLOP"));
    facts += &fact("", "Streaming copy", &roof("bytes", "B"));
    facts += &fact("", "Dispatch", &time(device.peaks.dispatch));
    facts += &fact("", "Submission", &time(device.peaks.submit));
    let why = match device.score {
        Some(_) => "",
        None => "<p class=\"sub\">No score: not all reference rows were measured.</p>",
    };
    let place = [("PCI", &device.pci), ("bus", &device.bus)];
    let place: Vec<String> =
        place.iter().filter_map(|(name, id)| Some(format!("{name} {}", id.as_ref()?))).collect();
    let driver = device.driver.as_deref().unwrap_or("driver unknown");
    let place = if place.is_empty() { String::new() } else { format!(" · {}", place.join(", ")) };
    let card = match device.card.as_slice() {
        [] => String::new(),
        words => format!("<p class=\"sub\">{}</p>", escaped(&words.join(", "))),
    };
    format!(
        "<section class=\"card\"><h3>{}</h3><p class=\"sub\">{}{}</p>{card}<div>{badges}</div><dl class=\"facts\">{facts}</dl>{why}</section>\n",
        escaped(&shortened(&device.name, LONGEST)),
        escaped(&shortened(driver, LONGEST)),
        escaped(&place)
    )
}

/// Names of roofs with what they count.
pub(in crate::bench) const ROOFS: [(&str, &str, &str); 14] = [
    ("flop", "fused multiply-adds", "FLOP"),
    ("many_sums", "multiply-adds on many sums", "FLOP"),
    ("abs_difference", "sums of absolute differences", "pairs"),
    ("exp", "exponentials", "exp"),
    ("bytes", "streaming copy", "B"),
    ("gather_words", "gathered words", "words"),
    ("loads.storage", "loads from storage", "words"),
    ("loads.uniform", "loads from uniform buffers", "words"),
    ("loads.texture", "loads from textures", "words"),
    ("loads.workgroup", "loads from workgroup memory", "words"),
    ("stores", "stores", "words"),
    ("vector_stores", "stores as vectors", "words"),
    ("upload_bytes", "upload", "B"),
    ("readback_bytes", "readback", "B"),
];

/// The roofline of every device with all its roofs.
pub(super) fn peaks(document: &Document) -> String {
    if document.devices.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<h2>What the devices can do</h2>\n<p>Measured on each device in the same run as the rows.</p>\n",
    );
    text += "<div class=\"scroll fitting\"><table><thead><tr><th>per second</th>";
    for device in &document.devices {
        let _ = write!(text, "<th class=\"n\">{}</th>", escaped(&device_name(device)));
    }
    text += "</tr></thead><tbody>\n";
    for (name, words, unit) in ROOFS {
        let _ = write!(text, "<tr><th>{words}</th>");
        for device in &document.devices {
            let roof = device.peaks.roofs.get(name).copied().unwrap_or_default();
            let below = roof
                .per_cpu_second
                .map_or_else(String::new, |x| format!("{} per CPU second", prefixed(x, unit)));
            let told = or_dash(roof.per_second, |x| prefixed(x, &format!("{unit}/s")));
            text += &number_cell("", roof.per_second, &told, &below);
        }
        text += "</tr>\n";
    }
    type Told = fn(&Device) -> String;
    let lines: [(&str, Told); 9] = [
        ("an empty dispatch", |d| time(d.peaks.dispatch)),
        ("an empty submission", |d| time(d.peaks.submit)),
        ("loads hidden behind arithmetic", |d| share(d.peaks.overlap)),
        ("copies in memory, by bytes moved", |d| by_size(&d.peaks.memory)),
        ("copies into textures, by bytes", |d| by_size(&d.peaks.copies)),
        ("subgroup", |d| match d.subgroup.as_slice() {
            [least, most] if least != most => format!("{least} to {most} lanes"),
            [one, ..] => format!("{one} lanes"),
            [] => NONE.into(),
        }),
        ("invocations of a workgroup", |d| or_dash(d.limits.get("invocations").copied(), |x| format!("{x}"))),
        ("workgroup memory", |d| or_dash(d.limits.get("workgroup_bytes").copied(), memory)),
        ("largest binding", |d| or_dash(d.limits.get("binding_bytes").copied(), memory)),
    ];
    for (name, say) in lines {
        let _ = write!(text, "<tr><th>{name}</th>");
        for device in &document.devices {
            let _ = write!(text, "<td class=\"n\">{}</td>", escaped(&say(device)));
        }
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n"
}

/// Speeds by size, by processor seconds where there are such.
fn by_size(ladder: &[(f64, Roof)]) -> String {
    let rung = |(bytes, roof): &(f64, Roof)| {
        let (speed, unit) = roof.per_cpu_second.map_or((roof.per_second?, "B/s"), |x| (x, "B/CPU s"));
        Some(format!("{} of {}", prefixed(speed, unit), memory(*bytes)))
    };
    let told: Vec<String> = ladder.iter().filter_map(rung).collect();
    if told.is_empty() { NONE.into() } else { told.join(", ") }
}

/// Hashes of the kernels' WGSL, folded away.
pub(super) fn kernels(document: &Document) -> String {
    if document.kernels.is_empty() {
        return String::new();
    }
    let list: String = document
        .kernels
        .iter()
        .map(|(name, hash)| format!("{} {}<br />\n", escaped(hash), escaped(name)))
        .collect();
    format!("<details><summary>Hashes of the kernels' WGSL</summary><p class=\"mono\">{list}</p></details>\n")
}

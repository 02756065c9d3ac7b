//! `wgattn bench`: times kernels as users run them, beside the device's own peaks and the error against f64.

mod compare;
mod graphs;
mod positions;

use super::{Failure, Outcome, notice, open_device, print_line, unwritten};
use crate::backend::{Backend, DeviceKind};
use crate::bench::{self, LARGE, MaskedPoint, Options, Peaks, Point, Row, Scaling, fourier_slope, measure};
use crate::error::Error;
use crate::graph::human_bytes;
use crate::kernel::{Case, KernelSpec};
use crate::whole_file::{check_target, write_whole};
use crate::words::counted;
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Arguments of `wgattn bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    other: Option<compare::Command>,
    /// Part of a kernel's name (`probe` for the probes themselves), `scaling` for time and memory of Nyström attention over tokens,
    /// `masked` for both ways of masked attention over tokens, `graph` for masks on graphs and trees, or `position` for position codes
    filter: Option<String>,
    /// auto, cpu, or the index, name or backend of an adapter (see `wgattn devices`)
    #[arg(long, default_value = "auto")]
    device: String,
    /// Variant to hold kernels to, or all for a row per variant that suits
    #[arg(long)]
    variant: Option<String>,
    /// Part of a case's name
    #[arg(long)]
    case: Option<String>,
    /// Least seconds per row (five runs are the least in any case)
    #[arg(long, default_value_t = 0.5, value_parser = parse_seconds)]
    seconds: f64,
    /// Token counts of `scaling` (4096 to 262144 if not given), of `masked` (256 to 65536) and of `position` (1024 to 65536)
    #[arg(long, value_delimiter = ',')]
    tokens: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the rows as CSV
    #[arg(long)]
    csv: Option<PathBuf>,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    match seconds.is_finite() && (0.0..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("expected 0 to 3600".into()),
    }
}

/// Says on a terminal what is being measured, and wipes it out again.
fn progress(text: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[2K{text}");
        let _ = err.flush();
    }
}

/// Refuses options that a table of its own would not look at.
fn refuse(args: &Args, what: &str, tokens: bool) -> Outcome {
    let given = [
        ("--variant", args.variant.is_some()),
        ("--case", args.case.is_some()),
        ("--csv", args.csv.is_some()),
        ("--tokens", tokens && !args.tokens.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure(format!(
            "{name}: has no meaning for `bench {what}`, whose sizes are its own; leave it out, or give --json"
        ))),
        None => Ok(()),
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> Outcome {
    if let Some(compare::Command::Compare(args)) = &args.other {
        return compare::run(args);
    }
    if args.filter.as_deref() == Some("scaling") {
        refuse(args, "scaling", false)?;
        return scaling(args);
    }
    if args.filter.as_deref() == Some("masked") {
        refuse(args, "masked", false)?;
        return masked(args);
    }
    if args.filter.as_deref() == Some("graph") {
        refuse(args, "graph", true)?;
        return graphs::run(args);
    }
    if args.filter.as_deref() == Some("position") {
        refuse(args, "position", false)?;
        return positions::run(args);
    }
    if !args.tokens.is_empty() {
        return Err(Failure(
            "--tokens: is for `bench scaling`, `bench masked` and `bench position`; the cases of kernels have their own sizes".into(),
        ));
    }
    let cases = bench::select(args.filter.as_deref(), args.case.as_deref());
    if cases.is_empty() {
        let all: Vec<String> =
            bench::select(None, None).iter().map(|(k, c)| format!("{}/{}", k.name, c.name)).collect();
        return Err(Failure(format!(
            "no benchmark matches {}; there are [{}]",
            [("kernel", &args.filter), ("case", &args.case)]
                .iter()
                .filter_map(|(what, asked)| Some(format!("{what} {:?}", asked.as_ref()?)))
                .collect::<Vec<_>>()
                .join(" and "),
            all.join(", ")
        )));
    }
    let plan: Vec<(&KernelSpec, &Case, Option<&str>)> = cases
        .into_iter()
        .flat_map(|(spec, case)| {
            wanted(spec, args.variant.as_deref()).into_iter().map(move |v| (spec, case, v))
        })
        .collect();
    if plan.is_empty() {
        let variant = args.variant.as_deref().unwrap_or("any");
        return Err(Failure(format!(
            "no kernel that matches has a variant {variant:?}; see `wgattn shaders KERNEL`"
        )));
    }
    if let Some(path) = &args.csv {
        // Refused before minutes of work.
        check_target(path).map_err(|e| unwritten(path, &e))?;
    }
    let backend = open_device(&args.device)?;
    let options = Options { seconds: args.seconds, ..Options::default() };
    progress("peaks");
    let peaks = peaks(backend.as_ref(), options)?;
    progress("");
    if !args.json {
        print_line(&device_line(backend.as_ref()))?;
        if backend.info().kind != DeviceKind::Reference {
            print_line(&peaks.text())?;
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for (number, (spec, case, variant)) in plan.iter().enumerate() {
        progress(&format!("{}/{} {}/{}", number + 1, plan.len(), spec.name, case.name));
        let row =
            row(backend.as_ref(), spec, case, *variant, args.variant.as_deref() == Some("all"), options);
        progress("");
        let Some(row) = row else { continue };
        if !args.json {
            print_line(&row.text(&peaks))?;
        }
        rows.push(row);
    }
    if args.json {
        let all = json!({
            "device": device_json(backend.as_ref()),
            "peaks": peaks.json(),
            "rows": rows.iter().map(|r| r.json(&peaks)).collect::<Vec<_>>(),
        });
        print_line(&serde_json::to_string_pretty(&all)?)?;
    }
    if let Some(path) = &args.csv {
        let text = bench::csv(&rows, &peaks);
        write_whole(path, |mut file| file.write_all(text.as_bytes())).map_err(|e| unwritten(path, &e))?;
    }
    match rows.iter().filter(|r| r.failure().is_some()).count() {
        0 => Ok(()),
        failed => Err(Failure(format!("{failed} of {} failed", counted(rows.len(), "row", "rows")))),
    }
}

/// The reference has no peaks worth comparing with.
fn peaks(backend: &dyn Backend, options: Options) -> Result<Peaks, Failure> {
    match backend.info().kind {
        DeviceKind::Reference => Ok(Peaks::default()),
        _ => Ok(Peaks::of(backend, options)?),
    }
}

/// Variants of a kernel that were asked for; `None` stands for the device's own choice.
fn wanted(spec: &'static KernelSpec, asked: Option<&str>) -> Vec<Option<&'static str>> {
    let names = bench::variants_of(spec);
    match asked {
        None => vec![None],
        Some("all") if names.is_empty() => vec![None],
        Some("all") => names.into_iter().map(Some).collect(),
        Some(name) => names.into_iter().filter(|n| *n == name).map(Some).collect(),
    }
}

/// One row; `None` for a variant that does not suit when all were asked for.
fn row(
    backend: &dyn Backend,
    spec: &'static KernelSpec,
    case: &Case,
    variant: Option<&str>,
    all: bool,
    options: Options,
) -> Option<Row> {
    let outcome = match variant {
        None => measure(backend, spec, case, options),
        Some(name) => backend
            .held_to(&format!("{}/{name}", spec.name))
            .and_then(|held| measure(held.as_ref(), spec, case, options)),
    };
    if all && variant.is_some() && matches!(outcome, Err(Error::Unsupported { .. })) {
        return None;
    }
    Some(Row {
        kernel: spec.name.into(),
        case: case.name.into(),
        variant: variant.map(Into::into),
        outcome: outcome.map_err(|e| Failure::from(e).0),
    })
}

fn device_json(backend: &dyn Backend) -> Value {
    let info = backend.info();
    json!({ "name": info.name, "backend": info.backend, "type": info.kind.to_string(), "driver": info.driver })
}

fn device_line(backend: &dyn Backend) -> String {
    let info = backend.info();
    let badge = if info.kind == DeviceKind::Software { " · software driver: judge by CPU time" } else { "" };
    format!("{} · {} · {}{badge}", info.name, info.backend, info.driver)
}

/// Time and memory over tokens.
fn scaling(args: &Args) -> Outcome {
    let backend = open_device(&args.device)?;
    if !args.json {
        print_line(&device_line(backend.as_ref()))?;
        print_line(
            "nystrom_attention, 8 heads, d = 32, 49 landmarks; time of the steps that grow with the tokens",
        )?;
    }
    let mut scaling = Scaling::default();
    let mut failed = Vec::new();
    let counts = or_these(&args.tokens, &[4096, 16_384, 65_536, 262_144]);
    for &tokens in counts {
        progress(&counted(tokens, "token", "tokens"));
        let point = Point::measure(backend.as_ref(), tokens, args.seconds.max(2.0));
        progress("");
        match point {
            Ok(point) => {
                if !args.json {
                    print_line(&point_line(&point))?;
                }
                scaling.points.push(point);
            }
            Err(error) => {
                let failure = Failure::from(error).0;
                notice(format_args!("{}: {failure}", counted(tokens, "token", "tokens")));
                failed.push(json!({ "tokens": tokens, "failure": failure }));
            }
        }
    }
    let slopes = [
        ("time", scaling.time_slope()),
        ("clock_time", scaling.clock_slope()),
        ("memory", scaling.memory_slope()),
        ("memory_without_slices", scaling.unsliced_slope()),
    ];
    if args.json {
        let points: Vec<Value> =
            scaling.points.iter().map(point_json).chain(failed.iter().cloned()).collect();
        let slopes: serde_json::Map<String, Value> =
            slopes.iter().map(|(n, s)| ((*n).into(), json!(s))).collect();
        let all = json!({ "device": device_json(backend.as_ref()), "points": points, "slopes": slopes });
        print_line(&serde_json::to_string_pretty(&all)?)?;
    } else {
        let say = |(name, slope): &(&str, Option<f64>)| {
            let value = slope.map_or_else(|| "needs two measurable points".into(), |s| format!("{s:.3}"));
            format!("{} {value}", name.replace('_', " "))
        };
        print_line(&format!(
            "slopes in logarithms: {}",
            slopes.iter().map(say).collect::<Vec<_>>().join(", ")
        ))?;
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(Failure(format!(
            "{count} of {} failed",
            counted(counts.len(), "token count", "token counts")
        ))),
    }
}

/// All ways of masked attention over tokens, whether the right one would be taken, and how close its transforms come to the
/// device's bound.
fn masked(args: &Args) -> Outcome {
    let backend = open_device(&args.device)?;
    if !args.json {
        print_line(&device_line(backend.as_ref()))?;
        print_line("masked_attention, one head, r = d = 32; processor time on software drivers")?;
    }
    let mut points: Vec<MaskedPoint> = Vec::new();
    for &tokens in or_these(&args.tokens, &[256, 1024, 4096, 16_384, 65_536]) {
        progress(&counted(tokens, "token", "tokens"));
        let point = MaskedPoint::measure(backend.as_ref(), tokens, args.seconds.max(1.0));
        progress("");
        let point = point?;
        if !args.json {
            print_line(&masked_line(&point))?;
        }
        points.push(point);
    }
    // The transforms behind it, against what the device can do at best.
    let options = Options { seconds: args.seconds, ..Options::default() };
    let peaks = peaks(backend.as_ref(), options)?;
    let mut rows: Vec<Row> = Vec::new();
    for (kernel, name) in TRANSFORMS {
        progress(&format!("{kernel} {name}"));
        for (spec, case) in bench::select(Some(kernel), Some(name)) {
            if (spec.name, case.name) == (kernel, name) {
                rows.extend(row(backend.as_ref(), spec, case, None, false, options));
            }
        }
        progress("");
    }
    let slope = fourier_slope(&points);
    let worst = points.iter().filter_map(MaskedPoint::regret).reduce(f64::max);
    if args.json {
        let all = json!({
            "device": device_json(backend.as_ref()),
            "points": points.iter().map(masked_json).collect::<Vec<_>>(),
            "fourier_slope": slope,
            "worst_choice": worst,
            "peaks": peaks.json(),
            "transforms": rows.iter().map(|r| r.json(&peaks)).collect::<Vec<_>>(),
        });
        return print_line(&serde_json::to_string_pretty(&all)?);
    }
    let or_none = |x: Option<f64>| x.map_or_else(|| "n/a".to_string(), |x| format!("{x:.2}"));
    print_line(&format!(
        "slope of the Fourier way in logarithms, from {LARGE} tokens on, {}; the way taken is at worst {} times as slow as the better one",
        or_none(slope),
        or_none(worst)
    ))?;
    print_line(&peaks.text())?;
    rows.iter().try_for_each(|row| print_line(&row.text(&peaks)))
}

/// Batched transforms and convolutions of common sizes: lines of 4096 × 512 channels, planes × 1024 channels.
const TRANSFORMS: [(&str, &str); 4] = [
    ("fft", "lines_512"),
    ("toeplitz_product", "line_4096"),
    ("toeplitz_product", "plane_64x64_1024"),
    ("toeplitz_product", "plane_56x56_1024"),
];

fn masked_line(p: &MaskedPoint) -> String {
    let time = |t: Option<f64>| t.map_or_else(|| "not run".into(), |t| format!("{:.2} ms", 1e3 * t));
    let refused = p.refused.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    format!(
        "{:>8} tokens  pairs {}, fourier {}, fused {}; takes {}; {} of {} rows again; 8 heads hold {}{refused}",
        p.tokens(),
        time(p.pairs),
        time(p.fourier),
        time(p.fused),
        p.plan,
        p.again.0,
        p.again.1,
        human_bytes(p.memory_of_eight)
    )
}

fn masked_json(p: &MaskedPoint) -> Value {
    json!({
        "sides": p.sides,
        "pairs_seconds": p.pairs,
        "fourier_seconds": p.fourier,
        "fused_seconds": p.fused,
        "taken": p.plan.chosen.to_string(),
        "estimated_pairs_seconds": 1e-3 * p.plan.pairs_ms,
        "estimated_fourier_seconds": 1e-3 * p.plan.fourier_ms,
        "estimated_for_fused": p.plan.fused,
        "rows_computed_again": p.again.0,
        "rows": p.again.1,
        "bytes_of_eight_heads": p.memory_of_eight,
        "refused": p.refused,
    })
}

fn or_these<'a>(asked: &'a [u32], otherwise: &'a [u32]) -> &'a [u32] {
    if asked.is_empty() { otherwise } else { asked }
}

fn point_line(p: &Point) -> String {
    let cpu = p.cpu_seconds.map_or_else(String::new, |s| format!(", {:.1} ms CPU", 1e3 * s));
    let other = p.other_seconds.map_or_else(String::new, |s| format!(", other steps {:.1} ms", 1e3 * s));
    let unsliced = p.unsliced.map_or_else(String::new, |b| format!(" ({} without slices)", human_bytes(b)));
    format!(
        "{:>8} tokens  {:.1} ms{cpu}{other}; {} transient{unsliced}, {} staging, {} inputs and outputs",
        p.tokens,
        1e3 * p.seconds,
        human_bytes(p.memory.transient),
        human_bytes(p.memory.staging),
        human_bytes(p.memory.external)
    )
}

fn point_json(p: &Point) -> Value {
    json!({
        "tokens": p.tokens,
        "seconds": p.seconds,
        "cpu_seconds": p.cpu_seconds,
        "other_seconds": p.other_seconds,
        "wall_seconds": p.wall_seconds,
        "samples": p.samples,
        "memory_bytes": {
            "transient": p.memory.transient,
            "transient_without_slices": p.unsliced,
            "staging": p.memory.staging,
            "inputs_and_outputs": p.memory.external,
        },
    })
}

//! `wgattn bench position`: what stochastic position codes cost beside the same attention without them, over the number of tokens, and from
//! how many taps on transforms are the cheaper way of convolutional codes.

use super::{Args, device_json, device_line, or_these, progress};
use crate::bench::positions::{Coding, REALIZATIONS, filters};
use crate::bench::{Options, PositionPoint, Timed};
use crate::cli::{Outcome, open_device, print_line};
use crate::graph::human_bytes;
use crate::kernels::position::conv_code::{DIRECT, FOURIER};
use serde_json::{Value, json};

/// Tokens, if nothing else is asked for.
const TOKENS: [u32; 4] = [1024, 4096, 16_384, 65_536];
/// The codes; the first is what the others are compared with.
const CODES: [Coding; 4] = [Coding::None, Coding::Sine(5), Coding::Sine(10), Coding::Conv(32)];
/// Taps of the comparison of both ways, at so many tokens.
const TAPS: [u32; 5] = [16, 32, 64, 128, 256];
const TOKENS_OF_TAPS: u32 = 4096;

fn timed_json(timed: &Timed) -> Value {
    json!({
        "dispatches": timed.dispatches,
        "seconds": timed.seconds.median,
        "cpu_seconds": timed.cpu_seconds.map(|s| s.median),
        "bytes": timed.memory,
    })
}

fn milliseconds(timed: &Timed) -> String {
    let cpu = timed.cpu_seconds.map_or_else(String::new, |s| format!(", {:.2} ms CPU", 1e3 * s.median));
    format!("{:.2} ms{cpu}", 1e3 * timed.seconds.median)
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Outcome {
    let backend = open_device(args.only_device()?, args.tune)?;
    let options = Options { seconds: args.table_seconds(), ..Options::default() };
    let say = |line: &str| if args.json { Ok(()) } else { print_line(line) };
    say(&device_line(backend.as_ref()))?;
    let tokens = or_these(&args.tokens, &TOKENS);
    let mut tables: Vec<Vec<PositionPoint>> = Vec::new();
    for coding in CODES {
        let mut points = Vec::new();
        for &n in tokens {
            progress(&format!("{coding}, {n} tokens"));
            points.push(PositionPoint::measure(backend.as_ref(), n, coding, options)?);
            progress("");
        }
        for (at, p) in points.iter().enumerate() {
            let ratio = tables.first().map_or_else(String::new, |plain| {
                format!(", {:.2} times as long as without", p.timed.time() / plain[at].timed.time())
            });
            say(&format!(
                "{coding}: {} tokens: {}{ratio}; {} dispatches, {}",
                p.tokens,
                milliseconds(&p.timed),
                p.timed.dispatches,
                human_bytes(p.timed.memory)
            ))?;
        }
        if let Some([time, memory]) = PositionPoint::slopes(&points) {
            say(&format!("{coding}: slope of time in logarithms {time:.2}, of memory {memory:.2}"))?;
        }
        tables.push(points);
    }
    let mut ways = Vec::new();
    for taps in TAPS {
        progress(&format!("{taps} taps"));
        let [direct, transforms] =
            [DIRECT, FOURIER].map(|way| filters(backend.as_ref(), TOKENS_OF_TAPS, taps, way, options));
        let (direct, transforms) = (direct?, transforms?);
        progress("");
        say(&format!(
            "{taps} taps on {TOKENS_OF_TAPS} tokens: tap by tap {}, by transforms {}: {:.2} times as long",
            milliseconds(&direct),
            milliseconds(&transforms),
            transforms.time() / direct.time()
        ))?;
        ways.push((taps, direct, transforms));
    }
    if args.json {
        let table = |points: &Vec<PositionPoint>| {
            let rows: Vec<Value> =
                points.iter().map(|p| json!({ "tokens": p.tokens, "timed": timed_json(&p.timed) })).collect();
            let slopes = PositionPoint::slopes(points);
            json!({
                "code": points.first().map(|p| p.coding.to_string()),
                "time_slope": slopes.map(|s| s[0]), "memory_slope": slopes.map(|s| s[1]), "points": rows,
            })
        };
        let ways: Vec<Value> = ways
            .iter()
            .map(|(taps, a, b)| json!({ "taps": taps, "direct": timed_json(a), "transforms": timed_json(b) }))
            .collect();
        let all = json!({
            "device": device_json(backend.as_ref()),
            "realizations": REALIZATIONS,
            "tables": tables.iter().map(table).collect::<Vec<_>>(),
            "ways_of_filters": ways,
        });
        print_line(&serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

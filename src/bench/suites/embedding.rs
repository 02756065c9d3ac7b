//! What attention costs a host that runs it in its own frame: encoding it, the dispatches and copies that it takes, and how much of a
//! submission's time its kernels work. Laplacian attention of 8 heads of 32 numbers through 49 landmarks.

use super::attention::{Empty, bytes, counts, flags, is_enough, on_cpu, sum};
use super::crossover::Landmarked;
use super::{KERNEL_SHARE, Kind, Way};
use crate::backend::{Backend, Burst, StepTime, Stopwatch};
use crate::bench::flags::Flag;
use crate::bench::measure::{Options, Ready, clocked, encode_seconds};
use crate::bench::published::Point;
use crate::bench::stats::Summary;
use crate::error::Result;
use std::time::Duration;

pub(super) static KIND: Kind = Kind {
    name: "embedding",
    title: "Laplacian attention in a host's frame (8 heads, d = 32, 49 landmarks)",
    x: "tokens",
    sizes: &[1024, 4096, 16_384, 65_536, 262_144],
    quick: &[1024, 16_384],
    ways: &[Way {
        series: &["submission", "its kernels", "encoding on the host"],
        of_quick: true,
        bytes,
        measure,
    }],
};

fn summary(times: impl Iterator<Item = f64>) -> Option<Summary> {
    Summary::of(&times.collect::<Vec<_>>()).filter(Summary::is_measurable)
}

fn measure(backend: &dyn Backend, tokens: u32, options: Options) -> Result<Vec<Point>> {
    let all = Landmarked::new(tokens)?;
    // Before the clock runs: a search is no compiling.
    backend.tune(&all.graph)?;
    let Ready { mut program, exceeded, .. } = Ready::make(backend, &all.graph, &all.inputs(), options)?;
    let program = program.as_mut();
    let Some(encode) = encode_seconds(program)? else {
        return Ok(vec![Point::skipped(tokens, "nothing is encoded or submitted on this device")]);
    };
    if let Some(most) = options.most_dispatch_seconds {
        let parts = program.run_in_parts(Duration::from_secs_f64(most))?;
        if parts.wall_seconds > most {
            let why = "it is one submission, which takes longer than --max-dispatch-ms allows";
            return Ok(vec![Point::skipped(tokens, why)]);
        }
    }
    let (max_error, checked) = all.check(program, options.check_work)?;
    // Whole submissions and single steps by turns, so that both see the same clock rates and neighbours.
    program.set_profiling(true);
    let total = Stopwatch::start();
    let (mut whole, mut empty): (Vec<Burst>, Vec<Burst>) = (Vec::new(), Vec::new());
    let (mut kernels, mut steps): (Vec<(f64, f64)>, Vec<StepTime>) = (Vec::new(), Vec::new());
    while !is_enough(whole.len(), total.seconds().0, options) {
        whole.push(program.run_burst(1)?);
        steps = program.run()?.steps;
        kernels.push(sum(steps.iter()));
        empty.push(program.run_burst(0)?);
    }
    // The same steps are timed in the same way in every run.
    let taken = Empty::middle(&empty).within(&steps);
    kernels.iter_mut().for_each(|k| *k = (k.0 - taken.0, k.1 - taken.1));
    // Where submissions are most of what was timed, their noise is as large as what remains.
    let clear =
        |summary: Option<Summary>, taken: f64| summary.filter(|s| s.median > 0.5 * taken && s.p10 > 0.0);
    let cpu = on_cpu(backend);
    let (source, _) = clocked(&whole);
    let submission = Point { max_error, checked: Some(checked), ..Point::at(tokens) }.timed(
        summary(whole.iter().map(|b| b.wall_seconds)),
        summary(whole.iter().map(|b| b.cpu_seconds)).filter(|_| cpu),
    );
    let by_both = [
        clear(summary(kernels.iter().map(|k| k.0)), taken.0),
        clear(summary(kernels.iter().map(|k| k.1)), taken.1).filter(|_| cpu),
    ];
    let unclear = by_both[0].is_none() || cpu && by_both[1].is_none();
    let mut of_kernels = Point::at(tokens).timed(by_both[0], by_both[1]);
    of_kernels.flags.extend(unclear.then(|| Flag::BelowResolution.to_string()));
    // A single thread encodes, and waits for nothing.
    let encoding = Point { y: Some(encode), cpu: Some(encode).filter(|_| cpu), ..Point::at(tokens) };
    let memory = program.memory();
    let mut numbers = counts(program);
    numbers.extend([("staging_bytes", memory.staging as f64), ("transient_bytes", memory.transient as f64)]);
    let part = |kernels: Option<f64>, whole: Option<f64>| Some(kernels? / whole?);
    // From submitting to the end of the last dispatch: encoding goes before.
    let by_clock = part(of_kernels.y, submission.y.map(|whole| whole - encode));
    let judged = if cpu { part(of_kernels.cpu, submission.cpu) } else { by_clock };
    numbers.extend(judged.map(|share| (KERNEL_SHARE, share)));
    numbers.extend(by_clock.filter(|_| cpu).map(|share| ("kernel_clock_share", share)));
    let stamped = whole.iter().map(|b| b.device_seconds).collect::<Option<Vec<f64>>>();
    numbers
        .extend(stamped.and_then(|s| summary(s.into_iter())).map(|device| ("device_seconds", device.median)));
    let flags = flags(backend, program, (source, submission.y.is_some(), exceeded));
    Ok(vec![Point { flags, ..submission.with(&numbers) }, of_kernels, encoding])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;

    #[test]
    fn the_reference_says_that_it_encodes_nothing() {
        let options = Options { seconds: 0.0, ..Options::default() };
        let points = measure(&CpuBackend, 64, options).expect("64 tokens");
        assert!(
            points.len() == 1 && points[0].skipped.is_some() && points[0].failure.is_none(),
            "{points:?}"
        );
    }
}

//! A frame of the explorer: the attention map of a moving picture, from 8-bit pixels on the host to the coloured map.
//!
//! The passes are the explorer's: linear light → OKLab → patches → features → landmarks → row of the clicked token, approximate and exact →
//! heads fused → colours. They are one program here, where the explorer has three with buffers in common; and the map is read back, where
//! the explorer draws it. As there, features and bandwidths stay those of the first frame, and the range of the colours comes from the row of
//! the last one.

use super::attention::{counts, flags, is_enough, on_cpu, sides, sum};
use super::{Kind, PARTS, PARTS_CPU, Way};
use crate::backend::cpu::CpuBackend;
use crate::backend::{Backend, Program, Stopwatch, TimingSource};
use crate::bench::expected::{Found, wrong};
use crate::bench::flags::Flag;
use crate::bench::measure::{Options, Ready};
use crate::bench::published::Point;
use crate::bench::stats::Summary;
use crate::error::{Error, Result};
use crate::graph::{Graph, Lowering, PassId};
use crate::kernel::case::deviation;
use crate::kernels::image::{colormap, fuse_heads};
use crate::kernels::laplacian::nystrom_map;
use crate::tensor::{DType, HostData, HostTensor, Tensor};
use crate::vision::features::{FeatureBasis, FeatureOptions};
use crate::vision::grid::{DEFAULT_STRIDE, TokenGrid};
use crate::vision::image::{LinearImage, Photo};
use crate::vision::palette::Palette;
use crate::vision::scene::{
    RowsAsked, SceneError, SceneOptions, bandwidths, narrow, plan_rows, record_features, record_rows,
};
use glam::UVec2;
use std::time::Duration;

pub(super) static KIND: Kind = Kind {
    name: "frame",
    title: "A frame of an attention map, from pixels to colours (4 heads, d = 32, 49 landmarks)",
    x: "tokens",
    sizes: &[1024, 4096, 16_384, 65_536, 262_144, 1_048_576],
    quick: &[1024, 4096],
    ways: &[Way {
        series: &[
            "frame",
            "picture to linear light",
            "features",
            "attention row",
            "colours",
            "back to the host",
            "first frame",
        ],
        of_quick: true,
        bytes: |tokens| 2048.0 * f64::from(tokens),
        measure,
    }],
};

/// By how much of the whole its parts may exceed it before that is told.
const EXCESS: f64 = 0.01;

/// Errors of pictures are those of a value that was made here.
fn of_picture(error: impl Into<SceneError>) -> Error {
    match error.into() {
        SceneError::Engine(error) => error,
        other => {
            let got = other.to_string();
            Error::value("picture of the suite", "one that makes tokens", got, "ask for other sizes")
        }
    }
}

/// A picture of soft blobs with sharp borders that move with the `phase`, so many pixels wide and high.
fn picture(size: UVec2, phase: f32) -> Result<Photo> {
    let mut samples = Vec::with_capacity(3 * size.x as usize * size.y as usize);
    for y in 0..size.y {
        for x in 0..size.x {
            let (u, v) = (x as f32 / size.x as f32 + phase, y as f32 / size.y as f32);
            let wave = (9.0 * u).sin() * (7.0 * v).cos();
            let colour = [0.5 + 0.3 * wave.signum(), 0.5 + 0.4 * (5.0 * u).cos(), 0.5 + 0.4 * wave];
            samples.extend(colour.map(|c| (255.0 * c) as u8));
        }
    }
    Photo::from_rgb8("frame", size.x, size.y, samples).map_err(of_picture)
}

/// The recorded way from pixels to colours.
struct Map {
    graph: Graph,
    pixels: Tensor,
    lambda: Tensor,
    cells: Tensor,
    colours: Tensor,
    /// Row of the clicked token per head `[1, h, n, 1]`.
    row: Tensor,
    /// The coloured map.
    picture: Tensor,
    paint: PassId,
    /// Passes up to the features, and up to the row.
    ends: [usize; 2],
}

impl Map {
    fn record(
        basis: &FeatureBasis,
        grid: &TokenGrid,
        image: &LinearImage,
        options: &SceneOptions,
    ) -> Result<Self> {
        let mut graph = Graph::new("frame");
        let shape = [narrow("rows", image.rows())?, narrow("columns", image.cols())?, 3];
        let (heads, tokens) = (narrow("heads", options.heads)?, narrow("tokens", grid.tokens())?);
        let sides = (narrow("grid rows", grid.rows())?, narrow("grid columns", grid.cols())?);
        let pixels = graph.input("picture", shape, DType::F32);
        let lambda = graph.input("lambda", [heads], DType::F32);
        let cells = graph.input("query cells", [1, 5], DType::U32);
        let colours = graph.input("colours", [256], DType::U32);
        let shape = [1, heads, tokens, narrow("head_dim", options.head_dim)?];
        let features = graph.transient("features", shape, DType::F32);
        record_features(&mut graph, basis, grid, pixels, features)?;
        let features_end = graph.passes().len();
        let plan = plan_rows(options, grid).map_err(of_picture)?;
        let ask = RowsAsked {
            features,
            queries: None,
            scale: None,
            lambda,
            cells,
            sides,
            keep: None,
            mask: None,
            exact: plan.exact,
            exact_rows: plan.no_twin.is_none(),
        };
        let row = record_rows(&mut graph, options, &ask)?.row;
        let ends = [features_end, graph.passes().len()];
        let by_head = graph.reshape(row, [heads, tokens])?;
        let (fused, _) =
            fuse_heads::record(&mut graph, "fused", by_head, None, fuse_heads::Params::default())?;
        let values = graph.reshape(fused, [sides.0, sides.1])?;
        let picture = graph.transient("map", [sides.0, sides.1], DType::Rgba8);
        let args = [Some(values), Some(colours), Some(picture)];
        let paint = graph.pass(&colormap::SPEC, &colormap::Params::default(), &args)?;
        graph.output(picture)?;
        Ok(Self { graph, pixels, lambda, cells, colours, row, picture, paint, ends })
    }

    fn pixels_of(&self, image: &LinearImage) -> Result<HostTensor> {
        HostTensor::f32(self.pixels.shape(), image.samples().to_vec())
    }

    /// Numbers that stay from frame to frame: bandwidths, the clicked token in the middle, and the colours.
    fn settings(&self, lambda: Vec<f32>) -> Result<[(Tensor, HostTensor); 3]> {
        let token = self.row.dim(2) / 2;
        let cells = HostTensor::new([1, 5], HostData::U32(vec![0, 0, 1, token, token + 1]))?;
        let colour = |i: u32| {
            let [r, g, b] = Palette::Sequential.colour(f64::from(i) / 255.0);
            u32::from_le_bytes([r, g, b, 255])
        };
        let colours = HostTensor::new([256], HostData::U32((0..256).map(colour).collect()))?;
        let lambda = HostTensor::f32(self.lambda.shape(), lambda)?;
        Ok([(self.lambda, lambda), (self.cells, cells), (self.colours, colours)])
    }

    /// Reads row and map, and says what the ends of the colours stand for in the next frame.
    fn read(&self, program: &mut dyn Program) -> Result<colormap::Params> {
        let row = program.read(self.row)?.to_f32();
        program.read(self.picture)?;
        let tokens = self.row.dim(2) as usize;
        let heads = row.len() / tokens.max(1);
        let mean = |t: usize| (0..heads).map(|h| row[h * tokens + t]).sum::<f32>() / heads.max(1) as f32;
        let (low, high) = (0..tokens).map(mean).fold((0.0_f32, 0.0_f32), |(l, h), x| (l.min(x), h.max(x)));
        let largest = high.max(-low).max(f32::MIN_POSITIVE * 1e8);
        let low = if low < 0.0 { -largest } else { 0.0 };
        Ok(colormap::Params { low, high: largest, ..colormap::Params::default() })
    }

    /// The largest error of the row, relative to its largest value, and how much was compared.
    ///
    /// Errors: an error beyond that of the kernel behind the row.
    fn check(
        &self,
        program: &mut dyn Program,
        inputs: &[(Tensor, &HostTensor)],
        work: f64,
    ) -> Result<(Option<f64>, String)> {
        let schedule = self.graph.schedule(Lowering::Reference)?;
        let costs = schedule.steps.iter().map(|s| (s.kernel.cost)(&s.dims, &s.params));
        if costs.map(|c| c.flop + 8.0 * c.exp).sum::<f64>() > work {
            return Ok((None, "nothing, its reference would take too long".into()));
        }
        let mut reference = CpuBackend.compile(&self.graph)?;
        inputs.iter().try_for_each(|(tensor, data)| reference.write(*tensor, data))?;
        reference.run()?;
        let error = deviation(&program.read(self.row)?, &reference.read(self.row)?)?.error;
        // Features of single precision differ by roundings, which the row's own floor allows for.
        let allowed = nystrom_map::SPEC.tolerance.floor;
        let found = Found { error, tolerance: allowed, port: "row" };
        if found.stands(program) {
            Ok((Some(error), "attention row".into()))
        } else {
            Err(wrong("frame", found))
        }
    }
}

/// Wall and processor times of one part over the frames.
#[derive(Default)]
struct Part(Vec<(f64, f64)>);

impl Part {
    /// What the clock that counts cannot see is not told by the other one.
    fn point(&self, tokens: u32, cpu: bool) -> Point {
        let of = |of: fn(&(f64, f64)) -> f64| Summary::of(&self.0.iter().map(of).collect::<Vec<f64>>());
        let processor = of(|t| t.1).filter(|s| cpu && s.is_measurable());
        Point::at(tokens).timed(of(|t| t.0).filter(|_| !cpu || processor.is_some()), processor)
    }
}

fn timed<T>(part: &mut Part, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let watch = Stopwatch::start();
    let result = work()?;
    part.0.push(watch.seconds());
    Ok(result)
}

fn measure(backend: &dyn Backend, tokens: u32, options: Options) -> Result<Vec<Point>> {
    let [rows, cols] = sides(tokens)?;
    let size = DEFAULT_STRIDE * UVec2::new(cols, rows);
    let photos = [picture(size, 0.0)?, picture(size, 0.01)?];
    let scene = SceneOptions { max_tokens: tokens as usize, ..SceneOptions::default() };
    let cpu = on_cpu(backend);

    let (first, fitting) = (Stopwatch::start(), Stopwatch::start());
    let grid = TokenGrid::plan(size, scene.patch, scene.stride, scene.max_tokens).map_err(of_picture)?;
    let image = photos[0].working(grid.working_size()).map_err(of_picture)?;
    let fit = FeatureOptions { heads: scene.heads, head_dim: scene.head_dim, ..FeatureOptions::default() };
    let basis = FeatureBasis::fit(&image, &grid, &fit).map_err(of_picture)?;
    let lambda = bandwidths(&scene, &basis, &image, &grid).map_err(of_picture)?;
    let fit_seconds = fitting.seconds().0;
    let map = Map::record(&basis, &grid, &image, &scene)?;
    let settings = map.settings(lambda)?;
    let pixels = map.pixels_of(&image)?;
    let mut inputs: Vec<(Tensor, &HostTensor)> = settings.iter().map(|(t, data)| (*t, data)).collect();
    inputs.push((map.pixels, &pixels));
    // A search for variants is no part of a first frame.
    let searching = Stopwatch::start();
    backend.tune(&map.graph)?;
    let searching = searching.seconds();
    let Ready { mut program, compile_seconds, first_seconds, exceeded } =
        Ready::make(backend, &map.graph, &inputs, options)?;
    let mut range = map.read(program.as_mut())?;
    let first = first.seconds();
    let first = (first.0 - searching.0, first.1 - searching.1);

    let (max_error, checked) = map.check(program.as_mut(), &inputs, options.check_work)?;
    let [mut whole, mut light, mut submission, mut back] = [const { Part(Vec::new()) }; 4];
    let mut parts = [const { Part(Vec::new()) }; 3];
    let total = Stopwatch::start();
    while !is_enough(whole.0.len(), total.seconds().0, options) {
        let photo = &photos[(whole.0.len() + 1) % 2];
        timed(&mut whole, || {
            timed(&mut light, || {
                let image = photo.working(grid.working_size()).map_err(of_picture)?;
                program.write(map.pixels, &map.pixels_of(&image)?)?;
                program.set_params(map.paint, &range)
            })?;
            timed(&mut submission, || match options.most_dispatch_seconds {
                Some(most) => program.run_in_parts(Duration::from_secs_f64(most)).map(drop),
                None => program.run().map(drop),
            })?;
            range = timed(&mut back, || map.read(program.as_mut()))?;
            Ok(())
        })?;
        // Whole frames and single steps by turns, so that both see the same clock rates and neighbours.
        if options.most_dispatch_seconds.is_none() {
            sections(program.as_mut(), &map, &mut parts)?;
        }
    }

    let mut frame = whole.point(tokens, cpu);
    let run_seconds = submission.point(tokens, cpu).y;
    let memory = program.memory();
    (frame.max_error, frame.checked) = (max_error, Some(checked));
    frame.flags = flags(backend, program.as_ref(), (TimingSource::Timestamp, frame.y.is_some(), exceeded));
    let (light, back) = (light.point(tokens, cpu), back.point(tokens, cpu));
    let steps = match options.most_dispatch_seconds {
        None => [0, 1, 2].map(|i| parts[i].point(tokens, cpu)),
        Some(_) => {
            let why = "steps are timed whole, which --max-dispatch-ms forbids";
            [0; 3].map(|_| Point::skipped(tokens, why))
        }
    };
    let frame = with_parts(frame, [&light, &back].into_iter().chain(&steps), cpu)
        .with(&counts(program.as_ref()))
        .with(&[
            ("device_bytes", (memory.external + memory.beyond_inputs_and_outputs()) as f64),
            ("submission_seconds", run_seconds.unwrap_or_default()),
        ]);
    let first = Point { y: Some(first.0), cpu: Some(first.1).filter(|_| cpu), ..Point::at(tokens) }.with(&[
        ("fit_seconds", fit_seconds),
        ("compile_seconds", compile_seconds),
        ("first_run_seconds", first_seconds),
    ]);
    let [features, row, colours] = steps;
    Ok(vec![frame, light, features, row, colours, back, first])
}

/// The whole with the sum of its parts, and a warning where that is more than the whole; as it is where a part has no time.
fn with_parts<'a>(whole: Point, parts: impl Iterator<Item = &'a Point> + Clone, cpu: bool) -> Point {
    let clock: Option<f64> = parts.clone().map(|p| p.y).sum();
    let processor: Option<f64> = parts.map(|p| p.cpu).sum();
    let judged = if cpu { processor.zip(whole.cpu) } else { clock.zip(whole.y) };
    let exceeds = judged.is_some_and(|(parts, whole)| parts > (1.0 + EXCESS) * whole);
    let sums = [clock.map(|s| (PARTS, s)), processor.map(|s| (PARTS_CPU, s))];
    let mut whole = whole.with(&sums.into_iter().flatten().collect::<Vec<_>>());
    whole.flags.extend(exceeds.then(|| Flag::PartsExceed.to_string()));
    whole
}

/// Times of features, row and colours once more, each as the sum of its steps by themselves; with their submissions, because a part may be
/// shorter than what these vary by.
fn sections(program: &mut dyn Program, map: &Map, parts: &mut [Part; 3]) -> Result<()> {
    program.set_profiling(true);
    let steps = program.run()?.steps;
    program.set_profiling(false);
    let section = |pass: PassId| map.ends.iter().filter(|end| pass.0 >= **end).count();
    let of = program.schedule().steps.iter().map(|s| section(s.pass)).zip(&steps);
    for (number, part) in parts.iter_mut().enumerate() {
        part.0.push(sum(of.clone().filter(|(s, _)| *s == number).map(|(_, time)| time)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::published::{Series, Suite};

    #[test]
    fn a_frame_has_its_parts_on_the_reference() {
        let options = Options { seconds: 0.0, runs: 1, check_work: 1e9, ..Options::default() };
        let points = measure(&CpuBackend, 256, options).expect("256 tokens");
        assert_eq!(points.len(), KIND.ways[0].series.len());
        assert!(points.iter().all(|p| p.y.is_some_and(|y| y > 0.0) && p.cpu.is_some()), "{points:?}");
        assert_eq!(points[0].max_error, Some(0.0), "the reference agrees with itself");
        let of = |i: usize| points[i].y.expect("a time");
        assert!(of(1) + of(5) < of(0), "the host's parts are within the frame: {points:?}");
        assert!(points[6].numbers["fit_seconds"] < of(6), "{points:?}");
    }

    #[test]
    fn dispatches_that_are_to_be_short_leave_out_what_times_whole_steps() {
        let options = Options { seconds: 0.0, most_dispatch_seconds: Some(0.05), ..Options::default() };
        let points = measure(&CpuBackend, 64, options).expect("64 tokens");
        let skipped: Vec<bool> = points.iter().map(|p| p.skipped.is_some()).collect();
        assert_eq!(skipped, [false, false, true, true, true, false, false]);
        assert!(!points[0].numbers.contains_key(PARTS), "what was not timed is in no sum: {points:?}");
    }

    #[test]
    fn frames_are_timed_as_often_as_rows_and_tell_how_they_spread() {
        for runs in [5, 10] {
            let options = Options { seconds: 0.0, runs, check_work: 0.0, ..Options::default() };
            let points = measure(&CpuBackend, 64, options).expect("64 tokens");
            let (first, frames) = points.split_last().expect("seven points");
            for p in frames {
                assert_eq!(p.samples, Some(runs as f64), "{p:?}");
                let (low, high) = p.y_ends.expect("several runs have a spread");
                assert!(low <= p.y.expect("a time") && p.y.expect("a time") <= high && p.cpu_ends.is_some());
            }
            assert_eq!((first.y_ends, first.samples), (None, None), "it happens once");
        }
    }

    #[test]
    fn parts_that_exceed_the_whole_are_told() {
        let of = |y: f64, cpu: f64| Point { y: Some(y), cpu: Some(cpu), ..Point::at(64) };
        let told = |whole: &Point, parts: &[Point], cpu| with_parts(whole.clone(), parts.iter(), cpu);
        let parts = [of(2.0, 5.0), of(3.0, 5.0)];
        let fits = told(&of(5.0, 9.0), &parts, false);
        assert!(fits.flags.is_empty() && fits.numbers[PARTS] == 5.0 && fits.numbers[PARTS_CPU] == 10.0);
        // What counts is the clock that the device is judged by.
        assert_eq!(told(&of(5.0, 9.0), &parts, true).flags, ["parts exceed the whole"]);
        assert_eq!(told(&of(4.9, 10.0), &parts, false).flags, ["parts exceed the whole"]);
        assert!(told(&of(4.99, 10.0), &parts, false).flags.is_empty(), "less than can be seen");
        let suite = Suite {
            series: vec![Series { name: "frame".into(), points: vec![told(&of(4.0, 8.0), &parts, true)] }],
            ..KIND.empty()
        };
        let said = super::super::findings(true, &suite);
        let [said] = &said[..] else { panic!("{said:?}") };
        assert!(
            said.contains(
                "64 tokens: the parts add up to 10.0 s, 25 % more than the whole of 8.00 s (by CPU time)"
            ) && said.contains("noise"),
            "{said}"
        );
    }
}

//! Which way masked attention is faster, pair by pair or by Fourier transforms, over the number of tokens; and whether the way
//! that would be taken by itself is the right one.

use super::operators::uniform;
use super::stats::{Summary, log_log_slope};
use crate::backend::{Backend, Stopwatch};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::mask::path::{self, Path, Plan};
use crate::kernels::mask::relative;
use crate::kernels::mask::{masked_attention, toeplitz_attention_fused};
use crate::mask::{Distance, Profile, RelativeTable};
use crate::tensor::{DType, HostTensor, Tensor};

/// Features and value columns of every point.
const WIDTH: u32 = 32;

/// One number of tokens.
#[derive(Clone, Debug)]
pub struct MaskedPoint {
    /// Sides of the grid.
    pub sides: [u32; 3],
    /// Seconds of one head pair by pair, processor seconds where the device computes on the CPU; `None` if it was refused.
    pub pairs: Option<f64>,
    /// The same by Fourier transforms that pass over memory.
    pub fourier: Option<f64>,
    /// The same with transforms in workgroup memory; `None` where they do not fit.
    pub fused: Option<f64>,
    /// What would be taken.
    pub plan: Plan,
    /// Rows that the noise guard had computed again, of all.
    pub again: (u32, u32),
    /// Bytes that the program of eight heads holds, the way that would be taken.
    pub memory_of_eight: u64,
    /// Why a way was refused.
    pub refused: Option<String>,
}

impl MaskedPoint {
    /// Tokens.
    pub fn tokens(&self) -> u32 {
        self.sides.iter().product()
    }

    /// How much slower the way that would be taken is than the faster one.
    pub fn regret(&self) -> Option<f64> {
        let taken = match self.plan.chosen {
            Path::Pairs => self.pairs?,
            _ if self.plan.fused => self.fused?,
            _ => self.fourier?,
        };
        let fastest = [self.pairs, self.fourier, self.fused].into_iter().flatten().fold(taken, f64::min);
        (self.pairs.is_some() && self.fourier.is_some()).then_some(taken / fastest)
    }

    /// Compiles, warms up and times both ways on one head: once more while that fits `seconds`, five times at most.
    ///
    /// Errors: as compiling and running; what one way alone refuses is told in the point.
    pub fn measure(backend: &dyn Backend, tokens: u32, seconds: f64) -> Result<Self> {
        let side = tokens.isqrt();
        let sides = if side * side == tokens { [1, side, side] } else { [1, 1, tokens] };
        let caps = backend.device_caps().copied().ok_or_else(|| Error::Unsupported {
            device: backend.info().name.clone(),
            missing: "it has one way only, the definition: choose another device with --device".into(),
        })?;
        let n = f64::from(tokens);
        let plan = path::plan(&caps, sides, n * n, WIDTH, WIDTH);
        let mut refused = None;
        let mut again = (0, 0);
        let mut time = |way: Path| -> Result<Option<f64>> {
            match timed(backend, sides, way, seconds) {
                Ok((time, rows)) => {
                    if way != Path::Pairs {
                        again = rows;
                    }
                    Ok(Some(time))
                }
                Err(error @ (Error::Limit { .. } | Error::Unsupported { .. })) => {
                    refused = Some(error.to_string());
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        };
        // Beyond a hundred times the other way's estimate nobody waits for a number.
        let pairs = if plan.pairs_ms < 100.0 * plan.fourier_ms { time(Path::Pairs)? } else { None };
        let fused = if toeplitz_attention_fused::fits(sides, &caps) { time(Path::Fused)? } else { None };
        let fourier = time(Path::Passes)?;
        let memory = backend.compile(&attention(sides, 8, plan.chosen)?.graph)?.memory();
        let memory_of_eight = memory.external + memory.beyond_inputs_and_outputs();
        Ok(Self { sides, pairs, fourier, fused, plan, again, memory_of_eight, refused })
    }
}

/// Tokens from which on the time by Fourier transforms is that of the transforms, not of dispatching them.
pub const LARGE: u32 = 64 * 64;

/// Exponent of the time by Fourier transforms over the tokens, from [`LARGE`] on.
pub fn fourier_slope(points: &[MaskedPoint]) -> Option<f64> {
    let large = points.iter().filter(|p| p.tokens() >= LARGE);
    let times: Vec<(f64, f64)> =
        large.filter_map(|p| p.fourier.map(|t| (f64::from(p.tokens()), t))).collect();
    log_log_slope(&times)
}

/// A recorded attention with its inputs.
struct Recorded {
    graph: Graph,
    inputs: Vec<(Tensor, HostTensor)>,
    status: Tensor,
}

fn attention(sides: [u32; 3], heads: u32, way: Path) -> Result<Recorded> {
    let table = RelativeTable::profile(&sides, Distance::L2, Profile::Inverse, 8.0)?;
    let n = table.tokens();
    let mut graph = Graph::new("masked attention");
    let mut inputs = Vec::new();
    for (number, name) in ["q", "k", "v"].into_iter().enumerate() {
        let tensor = graph.input(name, [1, heads, n, WIDTH], DType::F32);
        let numbers = uniform(number as u32, [0.1, 1.0], heads * n * WIDTH);
        inputs.push((tensor, HostTensor::f32([1, heads, n, WIDTH], numbers)?));
    }
    let weights = table.tensor()?;
    let given = graph.input("table", weights.shape(), DType::F32);
    inputs.push((given, weights));
    let out = graph.transient("attended", [1, heads, n, WIDTH], DType::F32);
    let status = graph.transient("status", [2], DType::U32);
    let [n1, n2, n3] = sides;
    let params = masked_attention::Params::of(relative::Params { n1, n2, n3, ..Default::default() }, way);
    let [q, k, v] = [0, 1, 2].map(|i| Some(inputs[i].0));
    graph.pass(
        &masked_attention::SPEC,
        &params,
        &[q, k, v, Some(given), None, None, None, Some(out), Some(status)],
    )?;
    graph.output(out)?;
    graph.output(status)?;
    Ok(Recorded { graph, inputs, status })
}

fn timed(backend: &dyn Backend, sides: [u32; 3], way: Path, seconds: f64) -> Result<(f64, (u32, u32))> {
    let Recorded { graph, inputs, status } = attention(sides, 1, way)?;
    let mut program = backend.compile(&graph)?;
    for (tensor, value) in &inputs {
        program.write(*tensor, value)?;
    }
    program.run()?;
    let software = backend.info().kind >= crate::backend::DeviceKind::Software;
    let total = Stopwatch::start();
    let mut times = Vec::new();
    while times.len() < 5 {
        let watch = Stopwatch::start();
        program.run()?;
        let (wall, cpu) = watch.seconds();
        times.push(if software { cpu } else { wall });
        if total.seconds().0 * (times.len() + 1) as f64 / times.len() as f64 > seconds {
            break;
        }
    }
    let words = program.read(status)?.to_f32();
    let count = |i: usize| words.get(i).map_or(0, |x| *x as u32);
    Ok((Summary::of(&times).map_or(0.0, |s| s.median), (count(0), count(1))))
}

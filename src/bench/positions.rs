//! What stochastic position codes cost: linear attention of positive random features with and without them, over the number of tokens,
//! and the two ways of convolutional codes over the length of their filters.

use super::measure::Options;
use super::operators::Timed;
use super::stats::log_log_slope;
use crate::attention::{FeatureMap, LinearAttention, Masks, Role};
use crate::backend::Backend;
use crate::error::Result;
use crate::graph::Graph;
use crate::kernels::position::conv_code;
use crate::position::sine::{PUBLISHED_BIAS, SineSizes};
use crate::position::{ConvCode, Encoding, Gate, Noise, Positions, SineCode};
use crate::random::Projection;
use crate::tensor::{DType, HostTensor, Tensor};
use std::fmt;

/// Heads, dimensions, realisations and features of every point: those of published models on one head's scale.
const HEADS: u32 = 4;
const WIDTH: u32 = 32;
/// Realisations.
pub const REALIZATIONS: u32 = 64;
const FEATURES: u32 = 64;

/// Which code attention has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// None.
    None,
    /// Sinusoids, so many per dimension, gated.
    Sine(u32),
    /// Filters of so many taps, gated.
    Conv(u32),
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no code"),
            Self::Sine(k) => write!(f, "{k} sinusoids"),
            Self::Conv(p) => write!(f, "{p} taps"),
        }
    }
}

impl Coding {
    fn encoding(self) -> Result<Option<Encoding>> {
        let gate = || Gate::init(HEADS, WIDTH, 2).map(Some);
        match self {
            Self::None => Ok(None),
            Self::Sine(sinusoids) => {
                let sizes = SineSizes { heads: HEADS, width: WIDTH, sinusoids, axes: 1 };
                Encoding::new(SineCode::init(sizes, PUBLISHED_BIAS, 1)?, gate()?).map(Some)
            }
            Self::Conv(taps) => Encoding::new(ConvCode::init(HEADS, WIDTH, &[taps], 1)?, gate()?).map(Some),
        }
    }
}

/// Attention with a code, or none, of one number of tokens.
#[derive(Clone, Debug)]
pub struct PositionPoint {
    /// Tokens, queries and keys alike.
    pub tokens: u32,
    /// The code.
    pub coding: Coding,
    /// Time and memory.
    pub timed: Timed,
}

impl PositionPoint {
    /// Compiles and times queries and keys under a code, their features, and linear attention.
    ///
    /// Errors: as recording, compiling and running.
    pub fn measure(backend: &dyn Backend, tokens: u32, coding: Coding, options: Options) -> Result<Self> {
        let mut graph = Graph::new("attention with positions");
        let [q, k, v] = ["q", "k", "v"].map(|name| graph.input(name, [1, HEADS, tokens, WIDTH], DType::F32));
        let (coded_q, coded_k) = match coding.encoding()? {
            None => (q, k),
            Some(encoding) => encoding.record(
                &mut graph,
                &Noise::default(),
                &Positions::line(tokens)?,
                REALIZATIONS,
                (q, k),
            )?,
        };
        let map =
            FeatureMap::FavorPlus { projection: Projection { features: FEATURES, ..Projection::default() } };
        let phi_q = map.record(&mut graph, coded_q, Role::Query, None, None)?;
        let phi_k = map.record(&mut graph, coded_k, Role::Key, None, None)?;
        let out = LinearAttention::default().record(&mut graph, (phi_q, phi_k, v), Masks::default())?.out;
        graph.output(out)?;
        Ok(Self { tokens, coding, timed: Timed::of(backend, &graph, &[q, k, v], options)? })
    }

    /// Exponents of time and memory over the tokens.
    pub fn slopes(points: &[Self]) -> Option<[f64; 2]> {
        let of = |y: &dyn Fn(&Self) -> f64| {
            log_log_slope(&points.iter().map(|p| (f64::from(p.tokens), y(p))).collect::<Vec<_>>())
        };
        Some([of(&|p| p.timed.time())?, of(&|p| p.timed.memory as f64)?])
    }
}

/// Queries under a convolutional code of so many taps, by one of its ways.
///
/// Errors: as recording, compiling and running.
pub fn filters(backend: &dyn Backend, tokens: u32, taps: u32, path: u32, options: Options) -> Result<Timed> {
    let mut graph = Graph::new("queries under filters");
    let x = graph.input("q", [1, HEADS, tokens, WIDTH], DType::F32);
    let weights = vec![1.0 / taps as f32; (HEADS * WIDTH * taps) as usize];
    let constant = |graph: &mut Graph, name: &str, shape: &[u32], values: Vec<f32>| -> Result<Tensor> {
        Ok(graph.constant(name, HostTensor::f32(crate::tensor::Shape::new(shape)?, values)?))
    };
    let by_lag = conv_code::lags(&weights, [1, 1, taps]);
    let lags = constant(&mut graph, "taps by lag", &[HEADS * WIDTH, 2 * taps - 1], by_lag)?;
    let taps = constant(&mut graph, "taps", &[1, HEADS, WIDTH, taps], weights)?;
    let side = conv_code::Tokens { x, taps, lags: Some(lags) };
    let params = conv_code::Params { path, ..conv_code::Params::default() };
    let [out] = conv_code::record(&mut graph, [side], conv_code::Common::default(), REALIZATIONS, params)?;
    graph.output(out)?;
    Timed::of(backend, &graph, &[x], options)
}

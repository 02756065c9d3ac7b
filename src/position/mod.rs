//! Stochastic positional encoding: relative positions for attention whose cost is linear in the tokens, because no pair of tokens
//! is ever looked at (Liutkus et al. 2021).
//!
//! Every dimension d of a head gets two random signals over the positions, q̄ and k̄, whose covariance between positions m and n is a
//! function P_d(m − n), the *template*. R realisations of them turn q and k into q̂(m) = Σ_d q_d(m) q̄_d(m) and k̂(n) likewise, and then
//! ⟨q̂(m), k̂(n)⟩/√R ≈ Σ_d q_d(m) P_d(m − n) k_d(n)/√D: any attention made of q̂ and k̂ knows relative positions, linear attention too.
//!
//! * [`sine`]: templates as sums of cosines. [`conv`]: templates as products of two filters, 0 beyond their length.
//! * [`gate`]: lets a dimension ignore positions in part. [`Encoding`]: a code with its gate.
//! * [`noise`]: where the random numbers come from. [`phase`]: angles that do not drift.
//! * [`apply`]: queries and keys with a code. [`template`]: what the codes' covariance is, what it is measured to be, and how far
//!   apart the two should be.
//! * [`synthesis`]: parameters for a prescribed template. [`spec`]: codes in words.
#![cfg_attr(
    feature = "cli",
    doc = "* [`weights`]: parameters from files, as two published programs name them."
)]
//!
//! * [`record`]: all this as passes of a graph. The rest runs on the CPU in f64, and is what kernels are measured against.

pub mod apply;
pub mod conv;
pub mod gate;
pub mod noise;
pub mod phase;
pub mod record;
pub mod sine;
pub mod spec;
pub mod synthesis;
pub mod template;
#[cfg(feature = "cli")]
pub mod weights;

pub use conv::{ConvCode, ConvPath, ConvTable};
pub use gate::{Gate, Meaning};
pub use noise::{Layer, Mode, Noise};
pub use sine::{SineCode, SineTable};

use crate::error::{Error, Result};
use crate::kernel::reference::Real;
use crate::words::counted;

/// Most numbers of one array here: 8 GiB in f64.
pub const MOST_NUMBERS: u64 = 1 << 30;

/// Product of sizes that is still a sensible array.
fn count(what: &str, sizes: &[(&str, u64)]) -> Result<usize> {
    let product = sizes.iter().try_fold(1_u64, |product, (_, size)| product.checked_mul(*size));
    match product.filter(|p| *p <= MOST_NUMBERS) {
        Some(product) => Ok(product as usize),
        None => {
            let shape: Vec<String> = sizes.iter().map(|(name, size)| format!("{name} {size}")).collect();
            // The largest is what to make less of.
            let largest = sizes.iter().max_by_key(|(_, size)| *size).map_or("numbers", |(name, _)| *name);
            let remedy = match largest {
                "tokens" | "n" | "samples" | "side" | "queries" | "keys" => {
                    "use fewer tokens, or take them in pieces (`Positions::starting_at`)".to_owned()
                }
                "taps" => "use shorter filters".into(),
                "width" | "d" => "use fewer dimensions".into(),
                name => format!("use fewer {name}"),
            };
            Err(Error::value(
                format!("{what} of a position code"),
                format!("at most {MOST_NUMBERS} numbers on the CPU"),
                shape.join(" × "),
                remedy,
            ))
        }
    }
}

/// Refuses data of another length than its shape's, by name.
fn check_len(name: &str, shape: &[(&str, u64)], got: usize) -> Result<()> {
    let expected = count(name, shape)?;
    if expected == got {
        return Ok(());
    }
    let names: Vec<String> = shape.iter().map(|(name, size)| format!("{name}={size}")).collect();
    Err(Error::Data {
        tensor: name.into(),
        expected: format!("[{}], {}", names.join(", "), counted(expected, "number", "numbers")),
        got: counted(got, "number", "numbers"),
    })
}

/// Refuses NaN and infinities in parameters, with the place of the first.
fn check_finite(name: &str, values: &[f64]) -> Result<()> {
    match values.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::Data {
            tensor: name.into(),
            expected: "finite numbers".into(),
            got: format!("{} at element {at}", values[at]),
        }),
    }
}

/// Logistic sigmoid 1/(1 + e^−x), accurate at both ends.
fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

/// Scale s = (R·D)^−¼ of a code: ⟨q̂, k̂⟩/√R then estimates Σ_d q_d P_d k_d/√D.
pub fn scale(realizations: u32, width: u32) -> f64 {
    (f64::from(realizations) * f64::from(width)).powf(-0.25)
}

/// Where tokens stand: in raster order on a grid of one to three axes (a sequence, a picture, a film), slowest axis first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Positions {
    sides: [u32; 3],
    origin: [u32; 3],
    axes: usize,
}

impl Positions {
    /// Positions 0 … n − 1 of a sequence.
    ///
    /// Errors: as [`Self::grid`].
    pub fn line(tokens: u32) -> Result<Self> {
        Self::grid(&[tokens])
    }

    /// All positions of a grid.
    ///
    /// Errors: [`Error::Value`] for no axis, more than three, a side of 0, or more than [`MOST_NUMBERS`] tokens.
    pub fn grid(sides: &[u32]) -> Result<Self> {
        if sides.is_empty() || sides.len() > 3 || sides.contains(&0) {
            return Err(Error::value(
                "positions of tokens",
                "one to three sides of at least 1",
                format!("{sides:?}"),
                "give the number of tokens, or the rows and columns of tokens",
            ));
        }
        let named: Vec<_> = sides.iter().map(|&side| ("side", u64::from(side))).collect();
        count("positions", &named)?;
        let mut all = [1; 3];
        all[..sides.len()].copy_from_slice(sides);
        Ok(Self { sides: all, origin: [0; 3], axes: sides.len() })
    }

    /// The same grid moved so that its first token stands at `origin`: a piece of a longer sequence has the codes it has there.
    ///
    /// Errors: [`Error::Value`] for another number of axes, or positions of 2³² and beyond.
    pub fn starting_at(self, origin: &[u32]) -> Result<Self> {
        let fits = origin.len() == self.axes
            && origin.iter().zip(self.sides).all(|(&first, side)| first.checked_add(side).is_some());
        if !fits {
            return Err(Error::value(
                "first position of the tokens",
                format!("{} below 2^32 minus the side", counted(self.axes, "number", "numbers")),
                format!("{origin:?}"),
                "give one number per axis",
            ));
        }
        let mut all = [0; 3];
        all[..origin.len()].copy_from_slice(origin);
        Ok(Self { origin: all, ..self })
    }

    /// Number of axes, one to three.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// Tokens along each axis, slowest first.
    pub fn sides(&self) -> &[u32] {
        &self.sides[..self.axes]
    }

    /// Position of the first token.
    pub fn origin(&self) -> &[u32] {
        &self.origin[..self.axes]
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.sides.iter().map(|&side| side as usize).product()
    }

    /// Position of token `i` in raster order; entries beyond the axes are 0.
    pub fn at(&self, i: usize) -> [u32; 3] {
        let (mut rest, mut position) = (i, [0; 3]);
        for axis in (0..self.axes).rev() {
            let side = self.sides[axis] as usize;
            position[axis] = self.origin[axis] + (rest % side) as u32;
            rest /= side;
        }
        position
    }

    /// τ = position of query `m` − position of key `n`; entries beyond the axes are 0.
    pub fn lag(&self, m: usize, n: usize) -> [i64; 3] {
        let (a, b) = (self.at(m), self.at(n));
        std::array::from_fn(|axis| i64::from(a[axis]) - i64::from(b[axis]))
    }

    /// The samples under filters that slide over all tokens: nₐ + Pₐ − 1 along each axis, from the same origin.
    ///
    /// Errors: [`Error::Value`] for filters of other axes, and samples beyond 2³².
    pub fn padded(&self, taps: &[u32]) -> Result<Self> {
        if taps.len() != self.axes {
            return Err(Error::value(
                "positions of a convolutional code",
                format!("{}, as its filters have", counted(taps.len(), "axis", "axes")),
                self.axes,
                "give positions on a grid of as many axes as the filters",
            ));
        }
        let sides: Option<Vec<u32>> =
            self.sides().iter().zip(taps).map(|(&n, &p)| n.checked_add(p.saturating_sub(1))).collect();
        match sides {
            Some(sides) => Self::grid(&sides)?.starting_at(self.origin()),
            None => {
                let got = format!("{:?} tokens under {taps:?} taps", self.sides());
                Err(Error::value("positions of a convolutional code", "below 2^32", got, "use fewer tokens"))
            }
        }
    }
}

/// Sizes and numbers of a drawn code, scale included: `q`, `k` `[n, h, d, r]`. One code serves all elements of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Codes<T = f64> {
    /// Tokens n.
    pub tokens: usize,
    /// Heads H.
    pub heads: u32,
    /// Dimensions D of queries and keys.
    pub width: u32,
    /// Realisations R.
    pub realizations: u32,
    /// What queries are multiplied with.
    pub q: Vec<T>,
    /// What keys are multiplied with.
    pub k: Vec<T>,
}

impl<T: Real> Codes<T> {
    /// A code of zeros, to be added to.
    fn zeros(positions: &Positions, heads: u32, width: u32, realizations: u32) -> Result<Self> {
        noise::check_sizes(heads, width, realizations)?;
        let tokens = positions.tokens();
        let len = count(
            "codes",
            &[
                ("tokens", tokens as u64),
                ("heads", heads.into()),
                ("width", width.into()),
                ("realisations", realizations.into()),
            ],
        )?;
        Ok(Self { tokens, heads, width, realizations, q: vec![T::zero(); len], k: vec![T::zero(); len] })
    }

    /// Refuses sizes of 0 and numbers that are not as many as the sizes say; the fields are anybody's to fill.
    fn check(&self) -> Result<()> {
        noise::check_sizes(self.heads, self.width, self.realizations)?;
        let shape = [
            ("n", self.tokens as u64),
            ("h", self.heads.into()),
            ("d", self.width.into()),
            ("r", self.realizations.into()),
        ];
        check_len("codes of queries", &shape, self.q.len())?;
        check_len("codes of keys", &shape, self.k.len())
    }

    /// Numbers of one token, H·D·R.
    pub fn stride(&self) -> usize {
        self.heads as usize * self.width as usize * self.realizations as usize
    }

    /// Where the realisations of token `n`, head `h` and dimension `d` begin in `q` and `k`.
    pub fn at(&self, n: usize, h: u32, d: u32) -> usize {
        n * self.stride() + (h * self.width + d) as usize * self.realizations as usize
    }
}

/// A code of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Code {
    /// Sums of cosines.
    Sine(SineCode),
    /// Pairs of filters.
    Conv(ConvCode),
}

impl From<SineCode> for Code {
    fn from(code: SineCode) -> Self {
        Self::Sine(code)
    }
}

impl From<ConvCode> for Code {
    fn from(code: ConvCode) -> Self {
        Self::Conv(code)
    }
}

impl Code {
    /// Heads H.
    pub fn heads(&self) -> u32 {
        match self {
            Self::Sine(code) => code.heads(),
            Self::Conv(code) => code.heads(),
        }
    }

    /// Dimensions D.
    pub fn width(&self) -> u32 {
        match self {
            Self::Sine(code) => code.width(),
            Self::Conv(code) => code.width(),
        }
    }

    /// Axes of the positions, one to three.
    pub fn axes(&self) -> usize {
        match self {
            Self::Sine(code) => code.axes() as usize,
            Self::Conv(code) => code.taps().len(),
        }
    }

    /// The counter's index of the gate's noise: the row after the code's own for sinusoids (2K), 0 for filters.
    pub fn gate_index(&self) -> u32 {
        match self {
            Self::Sine(code) => 2 * code.sinusoids(),
            Self::Conv(_) => 0,
        }
    }

    /// Learnable numbers: 3HDK for sinusoids on a line, 2HDP for filters; they do not grow with the tokens.
    pub fn parameters(&self) -> u64 {
        let channels = u64::from(self.heads()) * u64::from(self.width());
        match self {
            Self::Sine(code) => channels * u64::from(code.sinusoids()) * u64::from(2 + code.axes()),
            Self::Conv(code) => 2 * channels * code.taps().iter().map(|&p| u64::from(p)).product::<u64>(),
        }
    }
}

/// A code with the gate that it goes through, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoding {
    code: Code,
    gate: Option<Gate>,
}

impl Encoding {
    /// A code and its gate.
    ///
    /// Errors: [`Error::Value`] for a gate of other heads or dimensions.
    pub fn new(code: impl Into<Code>, gate: Option<Gate>) -> Result<Self> {
        let code = code.into();
        gate::gate_factors(gate.as_ref(), code.heads(), code.width())?;
        Ok(Self { code, gate })
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The gate.
    pub fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    /// Learnable numbers, the gate's HD included.
    pub fn parameters(&self) -> u64 {
        let gate = self.gate.as_ref().map_or(0, |g| u64::from(g.heads()) * u64::from(g.width()));
        self.code.parameters() + gate
    }

    /// Draws the codes of the tokens, gate applied, in f64. The codes of a position are the same bits however many tokens there are.
    ///
    /// Errors: [`Error::Value`] for positions of other axes than the code's, and for sizes beyond the noise's counters.
    pub fn draw(&self, noise: &Noise, positions: &Positions, realizations: u32) -> Result<Codes> {
        let (heads, width) = (self.code.heads(), self.code.width());
        let mut codes = match &self.code {
            Code::Sine(code) => {
                let z = noise.sine(heads, width, code.sinusoids(), realizations)?;
                code.codes(positions, &z, realizations)?
            }
            // Not the cheaper of the two ways: that would depend on the number of tokens, and its rounding with it.
            Code::Conv(code) => {
                let z = noise.conv(heads, width, positions, code.taps(), realizations)?;
                code.codes(positions, &z, realizations, ConvPath::Direct)?
            }
        };
        if let Some(gate) = &self.gate {
            let epsilon = noise.gate(heads, width, self.code.gate_index(), realizations)?;
            gate.apply(&mut codes, &epsilon)?;
        }
        Ok(codes)
    }
}

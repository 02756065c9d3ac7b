//! Feature maps φ by name: what linear attention puts in the place of softmax's exponential.
//!
//! ELU + 1, ReLU and the exponential define their own kernel and are exact for it; FAVOR+ and the hyperbolic map approximate
//! e^(q·k/√d) and do so well for short vectors only; the trigonometric map does too, but is not positive, and fails visibly. Maps
//! that bear `published` names keep the shifts and additions of released code, which drown small keys; they are there to
//! compare with.

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::kernels::feature::feature_map::{self, Inputs, Params};
use crate::kernels::feature::segment_max::Rows;
use crate::random::{Norms, Projection};
use crate::tensor::Tensor;
use std::fmt;
use std::str::FromStr;

/// Whose features: they differ in what the shift of the exponents is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Each row by itself.
    Query,
    /// All rows of a head, or of a segment of it.
    Key,
}

/// A feature map φ, `[b, h, n, d]` to `[b, h, n, r]`; see [`feature_map`] for the formulas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureMap {
    /// elu(x) + 1: never zero, the safest.
    #[default]
    Elu1,
    /// max(x, 0), or max(Wx, 0); rows may be all zero.
    Relu {
        /// W.
        projection: Option<Projection>,
    },
    /// e^x, shifted.
    Exp,
    /// Positive random features.
    FavorPlus {
        /// W.
        projection: Projection,
    },
    /// Positive random features of W and −W.
    Hyperbolic {
        /// W, half as many rows as features.
        projection: Projection,
    },
    /// Random Fourier features: can be negative, so denominators can vanish.
    Trigonometric {
        /// W, half as many rows as features.
        projection: Projection,
    },
    /// A form of released code, with its eps.
    Published(Published),
}

/// Forms of released code, to compare with: their eps is part of the features, and their shifts ignore norms, heads or batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Published {
    /// performer-pytorch, softmax: the largest product of a head is taken off, eps = 1e-4.
    Performer {
        /// W.
        projection: Projection,
    },
    /// performer-pytorch, ReLU: max(Wx, 0) + 1e-3.
    PerformerRelu {
        /// W.
        projection: Projection,
    },
    /// google-research, softmax: the largest product of the whole tensor is taken off, eps = 1e-6.
    Google {
        /// W.
        projection: Projection,
    },
    /// google-research, ReLU in Long Range Arena: max(x, 0) + 1e-3.
    GoogleRelu,
    /// TopViT: max(q/√d, 0) + 1e-8 and max(k, 0) + 1e-8.
    TopVit,
}

/// Most random features: drawing and holding more takes longer than what they stand for.
const MOST_FEATURES: u32 = 16_384;

/// A name, what it takes, and its map.
struct Name {
    name: &'static str,
    projected: Projected,
    map: fn(Option<Projection>) -> FeatureMap,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Projected {
    Never,
    IfAsked,
    Always,
}

/// The projection that the table below has made sure of.
fn given(projection: Option<Projection>) -> Projection {
    projection.unwrap_or_default()
}

const NAMES: &[Name] = &[
    Name { name: "elu", projected: Projected::Never, map: |_| FeatureMap::Elu1 },
    Name { name: "relu", projected: Projected::IfAsked, map: |projection| FeatureMap::Relu { projection } },
    Name { name: "exp", projected: Projected::Never, map: |_| FeatureMap::Exp },
    Name {
        name: "favor+",
        projected: Projected::Always,
        map: |p| FeatureMap::FavorPlus { projection: given(p) },
    },
    Name {
        name: "hyperbolic",
        projected: Projected::Always,
        map: |p| FeatureMap::Hyperbolic { projection: given(p) },
    },
    Name {
        name: "trig",
        projected: Projected::Always,
        map: |p| FeatureMap::Trigonometric { projection: given(p) },
    },
    Name {
        name: "published-performer",
        projected: Projected::Always,
        map: |p| FeatureMap::Published(Published::Performer { projection: given(p) }),
    },
    Name {
        name: "published-performer-relu",
        projected: Projected::Always,
        map: |p| FeatureMap::Published(Published::PerformerRelu { projection: given(p) }),
    },
    Name {
        name: "published-google",
        projected: Projected::Always,
        map: |p| FeatureMap::Published(Published::Google { projection: given(p) }),
    },
    Name {
        name: "published-google-relu",
        projected: Projected::Never,
        map: |_| FeatureMap::Published(Published::GoogleRelu),
    },
    Name {
        name: "published-topvit",
        projected: Projected::Never,
        map: |_| FeatureMap::Published(Published::TopVit),
    },
];

impl FeatureMap {
    /// Names that [`FromStr`] knows, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|n| n.name)
    }

    /// Its name, without settings.
    pub fn name(&self) -> &'static str {
        let same = |n: &&Name| (n.map)(self.projection()) == *self;
        NAMES.iter().find(same).map_or("?", |n| n.name)
    }

    /// Its projection, where it has one.
    pub fn projection(&self) -> Option<Projection> {
        match *self {
            Self::Relu { projection } => projection,
            Self::FavorPlus { projection }
            | Self::Hyperbolic { projection }
            | Self::Trigonometric { projection }
            | Self::Published(
                Published::Performer { projection }
                | Published::PerformerRelu { projection }
                | Published::Google { projection },
            ) => Some(projection),
            Self::Elu1 | Self::Exp | Self::Published(Published::GoogleRelu | Published::TopVit) => None,
        }
    }

    /// Whether no feature can be negative, so that no denominator can.
    pub fn is_positive(&self) -> bool {
        !matches!(self, Self::Trigonometric { .. })
    }

    /// Whether it approximates softmax's e^(q·k/√d), instead of a kernel of its own.
    pub fn approximates_softmax(&self) -> bool {
        matches!(
            self,
            Self::FavorPlus { .. }
                | Self::Hyperbolic { .. }
                | Self::Trigonometric { .. }
                | Self::Published(Published::Performer { .. } | Published::Google { .. })
        )
    }

    /// Features r of tokens of `d` numbers.
    ///
    /// Errors: [`Error::Value`] for d = 0, no feature, or an odd number of features of a map that makes them in pairs.
    pub fn features(&self, d: u32) -> Result<u32> {
        let name = self.name();
        if d == 0 {
            return Err(Error::value(
                format!("numbers of a token for feature map {name}"),
                "at least 1",
                d,
                "give tokens [b, h, n, d] with d ≥ 1",
            ));
        }
        let Some(projection) = self.projection() else { return Ok(d) };
        let features = projection.features;
        let paired = matches!(self, Self::Hyperbolic { .. } | Self::Trigonometric { .. });
        if features > MOST_FEATURES {
            return Err(Error::value(
                format!("features of {name}"),
                format!("at most {MOST_FEATURES}"),
                features,
                "the error falls with the root of their number: 64 to 1024 are usual",
            ));
        }
        if features == 0 || (paired && !features.is_multiple_of(2)) {
            return Err(Error::value(
                format!("features of {name}"),
                if paired { "an even number, at least 2" } else { "at least 1" },
                features,
                format!("write for example {name}:features=64"),
            ));
        }
        Ok(features)
    }

    /// Parameters of [`feature_map`] for tokens of `d` numbers.
    pub fn params(&self, role: Role, d: u32) -> Params {
        let (map, maximum, eps) = match self {
            Self::Elu1 => (feature_map::ELU1, feature_map::WHOLE, 0.0),
            Self::Relu { .. } => (feature_map::RELU, feature_map::WHOLE, 0.0),
            Self::Exp => (feature_map::EXP, feature_map::WHOLE, 0.0),
            Self::FavorPlus { .. } => (feature_map::FAVOR, feature_map::WHOLE, 0.0),
            Self::Hyperbolic { .. } => (feature_map::HYPERBOLIC, feature_map::WHOLE, 0.0),
            Self::Trigonometric { .. } => (feature_map::TRIGONOMETRIC, feature_map::WHOLE, 0.0),
            Self::Published(form) => match form {
                Published::Performer { .. } => (feature_map::FAVOR, feature_map::PRODUCTS_OF_HEAD, 1e-4),
                Published::Google { .. } => (feature_map::FAVOR, feature_map::PRODUCTS_OF_ALL, 1e-6),
                Published::PerformerRelu { .. } | Published::GoogleRelu => {
                    (feature_map::RELU, feature_map::WHOLE, 1e-3)
                }
                Published::TopVit => (feature_map::RELU, feature_map::WHOLE, 1e-8),
            },
        };
        let scale = match (self, role) {
            (Self::Published(Published::TopVit), Role::Query) => f64::from(d.max(1)).sqrt().recip() as f32,
            _ => 0.0,
        };
        let role = if role == Role::Query { feature_map::QUERY } else { feature_map::KEY };
        Params { scale, eps, map, role, maximum }
    }

    /// Records φ of `x` `[b, h, n, d]` into a new transient `[b, h, n, r]`. The projection is a constant of the graph, drawn here.
    ///
    /// * `key_mask` `[b, h, n]`: rows left out are zeros and take no part in a shift; either of b and h may be 1.
    /// * `segments` `[b, h, s]`, `u32`: boundaries of packed sequences, see
    ///   [`segment_max`](crate::kernels::feature::segment_max); either of b and h may be 1.
    ///
    /// Errors: as [`Self::features`], and shapes that do not fit, with the caller's place.
    #[track_caller]
    pub fn record(
        &self,
        graph: &mut Graph,
        x: Tensor,
        role: Role,
        key_mask: Option<Tensor>,
        segments: Option<Tensor>,
    ) -> Result<Tensor> {
        let projection = self.record_projection(graph, x)?;
        self.record_with(graph, x, projection, role, Rows { key_mask, starts: segments })
    }

    /// Records the projection for tokens `x` as a constant `[p, d]`, for maps of queries and keys to share.
    ///
    /// Errors: as [`Self::features`]; [`Error::Value`] where `x` is not `[b, h, n, d]`.
    pub fn record_projection(&self, graph: &mut Graph, x: Tensor) -> Result<Option<Tensor>> {
        let &[_, _, _, d] = x.shape().dims() else {
            return Err(Error::value(
                format!("tokens of feature map {}", self.name()),
                "[b, h, n, d]",
                x.shape(),
                "reshape them",
            ));
        };
        let features = self.features(d)?;
        let paired = matches!(self, Self::Hyperbolic { .. } | Self::Trigonometric { .. });
        let rows = if paired { features / 2 } else { features };
        let draw = |p: Projection| Ok(graph.constant("projection", p.draw(rows, d)?));
        self.projection().map(draw).transpose()
    }

    /// [`Self::record`] with a projection that is already there.
    ///
    /// Errors: shapes that do not fit, with the caller's place.
    #[track_caller]
    pub fn record_with(
        &self,
        graph: &mut Graph,
        x: Tensor,
        projection: Option<Tensor>,
        role: Role,
        rows: Rows,
    ) -> Result<Tensor> {
        let d = x.shape().dims().last().copied().unwrap_or(0);
        let name = if role == Role::Query { "query features" } else { "key features" };
        feature_map::record(graph, name, Inputs { x, projection, rows }, self.params(role, d))
    }
}

impl fmt::Display for FeatureMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let Some(p) = self.projection() else { return Ok(()) };
        write!(f, ":features={},seed={}", p.features, p.seed)?;
        if p.layer != 0 {
            write!(f, ",layer={}", p.layer)?;
        }
        if p.norms == Norms::Sqrt {
            f.write_str(",norms=sqrt")?;
        }
        Ok(())
    }
}

/// Settings of a projection: `features=64,seed=7,layer=0,norms=chi`.
fn projection_of(name: &str, settings: &str) -> Result<Projection> {
    let mut projection = Projection::default();
    for setting in settings.split(',').filter(|s| !s.trim().is_empty()) {
        let unknown = || {
            Error::value(
                format!("setting of feature map {name}"),
                "features=, seed=, layer= or norms=chi|sqrt",
                format!("{setting:?}"),
                format!("write for example {name}:features=64,seed=7"),
            )
        };
        let (key, value) = setting.split_once('=').ok_or_else(unknown)?;
        let (key, value) = (key.trim(), value.trim());
        let number = || {
            value.parse::<u64>().map_err(|_| {
                let what = format!("{key} of feature map {name}");
                Error::value(what, "a whole number", format!("{value:?}"), "write digits only")
            })
        };
        let small = || {
            u32::try_from(number()?).map_err(|_| {
                let what = format!("{key} of feature map {name}");
                Error::value(what, "less than 2^32", value, "use a smaller number")
            })
        };
        match key {
            "features" => projection.features = small()?,
            "seed" => projection.seed = number()?,
            "layer" => projection.layer = small()?,
            "norms" => {
                projection.norms = match value {
                    "chi" => Norms::Chi,
                    "sqrt" => Norms::Sqrt,
                    _ => return Err(unknown()),
                }
            }
            _ => return Err(unknown()),
        }
    }
    Ok(projection)
}

impl FromStr for FeatureMap {
    type Err = Error;

    /// `elu`, `relu`, `exp`, `favor+:features=64,seed=7`, ...; see [`Self::names`].
    fn from_str(text: &str) -> Result<Self> {
        let (name, settings) = text.split_once(':').map_or((text, None), |(n, s)| (n, Some(s)));
        let Some(entry) = NAMES.iter().find(|n| n.name == name.trim()) else {
            let names = Self::names().collect::<Vec<_>>().join(", ");
            return Err(Error::value(
                "feature map",
                format!("one of {names}"),
                format!("{name:?}"),
                "choose one of them",
            ));
        };
        let projection = match (entry.projected, settings) {
            (Projected::Never, Some(settings)) => {
                return Err(Error::value(
                    format!("settings of feature map {}", entry.name),
                    "none: it has no projection",
                    format!("{settings:?}"),
                    format!("write {} alone", entry.name),
                ));
            }
            (Projected::Never | Projected::IfAsked, None) => None,
            (_, settings) => Some(projection_of(entry.name, settings.unwrap_or_default())?),
        };
        let map = (entry.map)(projection);
        map.features(1)?;
        Ok(map)
    }
}

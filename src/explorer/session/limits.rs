//! What the numbers of a session, and its mask in words, may be: a file with any other is refused whole, with the field's name, instead of failing
//! later where it is computed.

use crate::error::Error;
use crate::explorer::networks::limits as networks;
use crate::explorer::position::{WIDTH, limits as position};
use crate::explorer::settings::{Compute, limits};
use crate::mask::MaskSpec;
use crate::mask::network::NetworkMaskSpec;
use serde_json::Value;
use std::ops::RangeInclusive;

/// A number that must not be what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Its place in the file: `document.settings.compute.lambda`.
    pub(super) field: &'static str,
    /// What it may be.
    pub(super) expected: String,
    /// What it is.
    pub(super) got: String,
}

/// What a field may hold.
enum Allowed {
    /// A whole number.
    Whole(RangeInclusive<u64>),
    /// A power of two.
    PowerOfTwo(RangeInclusive<u64>),
    /// A finite number above 0, as an f32.
    Positive,
    /// The same, or nothing.
    PositiveOrNull,
    /// A number between two others.
    Between(RangeInclusive<f64>),
}

impl Allowed {
    fn words(&self) -> String {
        match self {
            Self::Whole(range) => format!("a whole number from {} to {}", range.start(), range.end()),
            Self::PowerOfTwo(range) => format!("a power of two from {} to {}", range.start(), range.end()),
            Self::Positive => "a finite number above 0".into(),
            Self::PositiveOrNull => "a finite number above 0, or null for an automatic one".into(),
            Self::Between(range) => format!("a number from {} to {}", range.start(), range.end()),
        }
    }

    fn has(&self, value: &Value) -> bool {
        // As the f32 that it becomes: 1e39 is infinite there, and 1e-60 is 0.
        let positive = |x: f64| (x as f32).is_finite() && x as f32 > 0.0;
        match self {
            Self::Whole(range) => value.as_u64().is_some_and(|x| range.contains(&x)),
            Self::PowerOfTwo(range) => {
                value.as_u64().is_some_and(|x| range.contains(&x) && x.is_power_of_two())
            }
            Self::Positive => value.as_f64().is_some_and(positive),
            Self::PositiveOrNull => value.is_null() || value.as_f64().is_some_and(positive),
            Self::Between(range) => value.as_f64().is_some_and(|x| range.contains(&x)),
        }
    }
}

/// Every number of the settings, by its place in the file; those that are missing take their defaults.
fn fields() -> Vec<(&'static str, Allowed)> {
    let whole =
        |range: RangeInclusive<u32>| Allowed::Whole(u64::from(*range.start())..=u64::from(*range.end()));
    let powers = Allowed::PowerOfTwo(
        u64::from(*position::REALIZATIONS.start())..=u64::from(*position::REALIZATIONS.end()),
    );
    let largest = f64::from(f32::MAX);
    vec![
        ("document.settings.compute.lambda", Allowed::PositiveOrNull),
        ("document.settings.compute.random_features", whole(limits::RANDOM_FEATURES)),
        ("document.settings.compute.landmark_side", whole(limits::LANDMARK_SIDE)),
        ("document.settings.compute.epsilon", Allowed::Positive),
        ("document.settings.compute.patch", whole(limits::PATCH)),
        ("document.settings.compute.stride", whole(limits::STRIDE)),
        ("document.settings.compute.max_tokens", whole(limits::TOKENS)),
        ("document.settings.compute.heads", whole(limits::HEADS)),
        ("document.settings.networks.network.nodes", whole(networks::NODES)),
        ("document.settings.networks.network.query", whole(0..=u32::MAX)),
        ("document.settings.networks.network.time", Allowed::Between(networks::TIME)),
        ("document.settings.networks.network.tolerance", Allowed::Between(networks::TOLERANCE)),
        ("document.settings.networks.network.walk", whole(networks::WALK)),
        ("document.settings.networks.network.discount", Allowed::Between(networks::DISCOUNT)),
        ("document.settings.networks.network.rate", Allowed::Between(networks::RATE)),
        ("document.settings.networks.network.steps", whole(networks::STEPS)),
        ("document.settings.networks.tree.rate", Allowed::Between(networks::RATE)),
        ("document.settings.networks.tree.sensitivity", Allowed::Between(networks::SENSITIVITY)),
        ("document.settings.networks.diffusion.time", Allowed::Between(networks::TIME)),
        ("document.settings.networks.diffusion.sensitivity", Allowed::Between(networks::SENSITIVITY)),
        ("document.settings.networks.diffusion.tolerance", Allowed::Between(networks::TOLERANCE)),
        ("document.settings.position.sinusoids", whole(position::SINUSOIDS)),
        ("document.settings.position.taps", whole(position::TAPS)),
        ("document.settings.position.realizations", powers),
        ("document.settings.position.bias", Allowed::Between(position::BIAS)),
        ("document.settings.position.gate", Allowed::Between(position::GATE)),
        ("document.settings.position.gain", Allowed::Between(position::GAIN)),
        ("document.settings.position.template_seed", whole(0..=u32::MAX)),
        ("document.settings.position.noise_seed", whole(0..=u32::MAX)),
        ("document.settings.position.head", whole(0..=*limits::HEADS.end() - 1)),
        ("document.settings.position.dimension", whole(0..=WIDTH - 1)),
        ("document.settings.look.fusion.Head", whole(0..=*limits::HEADS.end() - 1)),
        ("document.settings.look.range.Clip", Allowed::Between(limits::CUT_OFF)),
        ("document.settings.look.range.Fixed.0", Allowed::Between(-largest..=largest)),
        ("document.settings.look.range.Fixed.1", Allowed::Between(-largest..=largest)),
        ("document.settings.look.opacity", Allowed::Between(0.0..=1.0)),
    ]
}

/// Where the mask of relative positions stands.
const MASK: &str = "document.settings.compute.mask";

/// The first number or mask of a session that is out of its range; `None` where all are fine.
pub(super) fn wrong_number(session: &Value) -> Option<Wrong> {
    let at = |field: &str| session.pointer(&format!("/{}", field.replace('.', "/")));
    let wrong = fields().into_iter().find_map(|(field, allowed)| {
        let value = at(field).filter(|value| !allowed.has(value))?;
        Some(Wrong { field, expected: allowed.words(), got: value.to_string() })
    });
    let mask = || {
        let text = at(MASK)?;
        let expected = "a mask in words, such as toeplitz:gauss,size=8".to_string();
        let wrong = |expected, got| Some(Wrong { field: MASK, expected, got });
        let Some(words) = text.as_str() else { return wrong(expected, text.to_string()) };
        match words.parse::<MaskSpec>() {
            Ok(_) => None,
            Err(Error::Value { what, expected, remedy, .. }) => {
                // A mask along edges is no slip, it stands elsewhere.
                let remedy = match NetworkMaskSpec::is_meant(words) {
                    true => "masks along edges have a view of their own".into(),
                    false => remedy,
                };
                wrong(format!("{what}: {expected} ({remedy})"), format!("{words:?}"))
            }
            Err(_) => wrong(expected, format!("{words:?}")),
        }
    };
    let wrong = wrong.or_else(mask);
    // A head that is not there could only be told when it is drawn.
    let head = at("document.settings.look.fusion.Head").and_then(Value::as_u64);
    let heads =
        at("document.settings.compute.heads").map_or(Some(Compute::default().heads as u64), Value::as_u64);
    let missing = || {
        let (head, heads) = head.zip(heads).filter(|(head, heads)| head >= heads)?;
        Some(Wrong {
            field: "document.settings.look.fusion.Head",
            expected: format!(
                "a whole number from 0 to {}, as there are {heads} heads",
                heads.saturating_sub(1)
            ),
            got: head.to_string(),
        })
    };
    wrong.or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explorer::session::Session;
    use crate::explorer::settings::{Fusion, Range};

    #[test]
    fn every_field_of_the_table_is_one_of_the_file() {
        let mut session = Session::default();
        let settings = &mut session.document.settings;
        settings.look.fusion = Fusion::Head(1);
        let mut places = vec![serde_json::to_value(&session).expect("JSON")];
        for range in [Range::Clip(1.0), Range::Fixed(-1.0, 1.0)] {
            session.document.settings.look.range = range;
            places.push(serde_json::to_value(&session).expect("JSON"));
        }
        for (field, _) in fields() {
            let pointer = format!("/{}", field.replace('.', "/"));
            assert!(places.iter().any(|value| value.pointer(&pointer).is_some()), "{field}");
        }
        assert!(places.iter().all(|value| wrong_number(value).is_none()), "and what is saved is let in");
    }
}

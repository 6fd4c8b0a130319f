//! Conversions of single values that lose nothing.

use serde_json::{Number, Value};

/// The number that `text` writes in JSON, if no digit of it is lost.
pub(super) fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    let number: Number = serde_json::from_str(text).ok()?;
    let mantissa = text.split(['e', 'E']).next()?;
    if !number.is_f64() || !mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9')) {
        return Some(number);
    }
    let is_integer = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    // An integer beyond 64 bits loses digits, and a number too small for a float loses all.
    (!is_integer && number.as_f64() != Some(0.0)).then_some(number)
}

/// The integer that `text` writes in JSON, with a zero fraction or an exponent if it likes.
pub(super) fn integer(text: &str) -> Option<Number> {
    let text = text.trim();
    serde_json::from_str::<Number>(text).ok()?;
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
    if digits.bytes().all(|digit| digit == b'0') {
        return Some(Number::from(0));
    }
    let point = usize::try_from(point).ok()?;
    let zeros = point.saturating_sub(digits.len());
    if zeros > 20 {
        return None;
    }
    digits.push_str(&"0".repeat(zeros));
    let (digits, rest) = digits.split_at_checked(point)?;
    if rest.bytes().any(|digit| digit != b'0') {
        return None;
    }
    parse_integer(&format!("{sign}{}", digits.trim_start_matches('0')))
}

/// The integer of a number with a zero fraction, if it has 64 bits at most.
pub(super) fn whole(number: &Number) -> Option<Number> {
    if !number.is_f64() {
        return Some(number.clone());
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
    parse_integer(&format!("{float:.0}"))
}

/// Whether a number is not an integer.
pub(super) fn has_fraction(number: &Number) -> bool {
    number.is_f64() && number.as_f64().is_some_and(|float| float.fract() != 0.0)
}

fn parse_integer(digits: &str) -> Option<Number> {
    if let Ok(integer) = digits.parse::<i64>() {
        return Some(Number::from(integer));
    }
    digits.parse::<u64>().ok().map(Number::from)
}

/// The boolean that a text or a number stands for.
pub(super) fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(it) => Some(*it),
        Value::String(text) if text.eq_ignore_ascii_case("true") || text == "1" => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") || text == "0" => Some(false),
        Value::Number(number) => match whole(number)?.as_u64()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        _ => None,
    }
}

/// The JSON text of a number or a boolean.
pub(super) fn text(value: &Value) -> Option<String> {
    matches!(value, Value::Number(_) | Value::Bool(_)).then(|| value.to_string())
}

/// The array that `text` writes in JSON.
pub(super) fn array(text: &str) -> Option<Value> {
    text.trim_start().starts_with('[').then(|| serde_json::from_str(text.trim()).ok())?
}

/// The object that `text` writes in JSON.
pub(super) fn object(text: &str) -> Option<Value> {
    text.trim_start().starts_with('{').then(|| serde_json::from_str(text.trim()).ok())?
}

/// What a value becomes by the conversions above, at most one of each type.
pub(super) fn readings(value: &Value) -> Vec<Value> {
    let mut readings = Vec::new();
    readings.extend(text(value).map(Value::from));
    if !value.is_boolean() {
        readings.extend(boolean(value).map(Value::from));
    }
    if let Value::String(text) = value {
        readings.extend(number(text).or_else(|| integer(text)).map(Value::from));
        readings.extend(array(text));
        readings.extend(object(text));
    }
    readings
}

/// Whether two values are the same JSON: numbers by value, keys in any order.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => same_number(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|it| equal(left, it)))
        }
        _ => left == right,
    }
}

fn same_number(left: &Number, right: &Number) -> bool {
    left == right
        || match (whole(left), whole(right)) {
            (Some(left), Some(right)) => left == right,
            _ => false,
        }
}

//! What holds for all schemas and all values, tried on many that nobody wrote.

use serde_json::{Map, Value, json};
use steerage::schema::{Schema, SchemaOptions};

const N_SCHEMAS: u64 = 600;
const N_VALUES: usize = 5;
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
const NAMES: [&str; 4] = ["a", "b", "c", "é"];
const TEXTS: [&str; 11] =
    ["1", "0", "true", "a", "", "1.0", "null", "[1]", "{\"a\":1}", "[\"a\"]", "😀é"];

/// The same numbers every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 7 } else { 11 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(4)),
            3 => json!([0.0, 1.0, 2.0][self.below(3)]),
            4 => json!(1.5),
            5 | 6 => json!(self.one(&TEXTS)),
            7 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let fields = (0..self.below(4))
                    .map(|_| (self.one(&NAMES).to_owned(), self.value(depth - 1)));
                Value::Object(fields.collect())
            }
        }
    }

    fn schemas(&mut self, depth: usize) -> Value {
        (0..=self.below(3)).map(|_| self.schema(depth)).collect()
    }

    fn schema(&mut self, depth: usize) -> Value {
        if depth == 0 {
            return json!({"type": self.one(&TYPES)});
        }
        if self.below(20) == 0 {
            return json!(self.below(4) != 0);
        }
        let mut schema = Map::new();
        for _ in 0..=self.below(2) {
            let (key, value) = self.keyword(depth - 1);
            schema.insert(key.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn keyword(&mut self, depth: usize) -> (&'static str, Value) {
        let part = self.schema(depth);
        match self.below(22) {
            0..=3 => ("type", json!(self.one(&TYPES))),
            4 => ("type", json!([self.one(&TYPES), self.one(&TYPES)])),
            5 => ("enum", (0..self.below(4)).map(|_| self.value(1)).collect()),
            6 => ("const", self.value(1)),
            7 => ("anyOf", self.schemas(depth)),
            8 => ("oneOf", self.schemas(depth)),
            9 => ("allOf", self.schemas(depth)),
            10 => ("not", part),
            11 => (self.one(&["if", "then", "else"]), part),
            12 | 13 => ("properties", json!({self.one(&NAMES): part, "a": self.schema(depth)})),
            14 => {
                let keys = ["additionalProperties", "unevaluatedProperties", "propertyNames"];
                (self.one(&keys), part)
            }
            15 => (self.one(&["items", "unevaluatedItems", "contains"]), part),
            16 => ("prefixItems", json!([part])),
            17 => ("required", json!([self.one(&NAMES)])),
            18 => {
                let keys = ["minimum", "maxLength", "minItems", "maxItems", "minProperties"];
                (self.one(&keys), json!(self.below(3)))
            }
            19 => ("uniqueItems", json!(true)),
            20 => ("dependentSchemas", json!({self.one(&NAMES): part})),
            _ => ("patternProperties", json!({self.one(&["^a", "b$", "."]): part})),
        }
    }
}

/// What is wrong with the answers for one value.
fn fault(lenient: &Schema, exact: &Schema, value: &Value) -> Option<String> {
    let is_valid = exact.check_value(value).is_ok();
    let mended = match lenient.check_value(value) {
        Ok(mended) => mended,
        Err(refusal) if is_valid => return Some(format!("valid, but refused: {refusal}")),
        Err(refusal) if !refusal.contains("\n- ") => return Some(format!("no reason: {refusal}")),
        Err(_) => return None,
    };
    if exact.check_value(&mended).is_err() {
        return Some(format!("became invalid: {mended}"));
    }
    if is_valid && !is_same(value, &mended) {
        return Some(format!("valid, but became {mended}"));
    }
    let again = lenient.check_value(&mended).map(|it| it.to_string());
    (again != Ok(mended.to_string())).then(|| format!("became {mended}, then {again:?}"))
}

/// Whether two values are the same but for how their numbers are written.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(it, other)| is_same(it, other))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has = |(key, it): (&String, &Value)| {
                right.get(key).is_some_and(|other| is_same(it, other))
            };
            left.len() == right.len() && left.iter().all(has)
        }
        _ => left == right,
    }
}

#[test]
fn what_is_valid_stays_and_what_is_mended_is_valid_and_stays() {
    let any = SchemaOptions { is_for_arguments: false, ..SchemaOptions::default() };
    let exact = SchemaOptions { coercion: false, ..any.clone() };
    let (mut faults, mut n_mended, mut n_refused) = (Vec::new(), 0, 0);
    for seed in 1..=N_SCHEMAS {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let json = dice.schema(3);
        let lenient = Schema::with_options(json.clone(), &any).unwrap();
        let exact = Schema::with_options(json.clone(), &exact).unwrap();
        for _ in 0..N_VALUES {
            let value = dice.value(3);
            faults.extend(
                fault(&lenient, &exact, &value).map(|it| format!("{json} <- {value}: {it}")),
            );
            match lenient.check_value(&value) {
                Ok(mended) => n_mended += usize::from(mended != value),
                Err(_) => n_refused += 1,
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    // Else nothing was tried.
    assert!(n_mended > 100 && n_refused > 100, "{n_mended} mended, {n_refused} refused");
}

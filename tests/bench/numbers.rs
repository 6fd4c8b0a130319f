//! Medians, slopes, and how numbers are written in tables.

pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    (!values.is_empty()).then(|| quantile(values, 50))
}

/// The value that so many percent of the values do not exceed.
pub(crate) fn quantile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (values.len().saturating_sub(1) * percent + 50) / 100;
    values.get(index).copied().unwrap_or(f64::NAN)
}

/// How a cost grows with a size: 1 is in proportion to it. The slope of the line through the logarithms.
pub(crate) fn exponent(points: &[(f64, f64)]) -> f64 {
    let points = points.iter().map(|(size, cost)| (size.ln(), cost.ln()));
    let count = f64::from(u32::try_from(points.len()).unwrap_or(u32::MAX));
    let mean_x = points.clone().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.clone().map(|(_, y)| y).sum::<f64>() / count;
    let rise: f64 = points.clone().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    rise / points.map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

/// A number with three digits that count.
pub(crate) fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return String::new() };
    match value.abs() {
        0.0 => "0".to_owned(),
        1000.0.. => thousands(value),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

pub(crate) fn ratio(value: Option<f64>, floor: Option<f64>) -> String {
    let ratio = value.zip(floor).map(|(value, floor)| value / floor);
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

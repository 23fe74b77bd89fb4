//! Traces of machines: CSV and Parquet.

use std::fs::File;
use std::io;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use demand::{Series, SeriesError};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use units::Instant;

use crate::columns::{Columns, Counted};

/// What a machine has sent and received over time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trace {
    /// Bits a second, both directions together.
    pub series: Series,
    /// The share of it that was sent, if the trace tells directions apart.
    pub sends: Option<f64>,
    /// The mean bytes of a frame, if the trace counts frames as well.
    pub frame: Option<u64>,
    /// The share of time for which its sender was paused, if the trace has that.
    pub paused: Option<f64>,
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be opened.
    #[error("cannot read {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no CSV.
    #[error("{} is no CSV", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: csv::Error,
    },
    /// It is no Parquet.
    #[error("{} is no Parquet", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ParquetError,
    },
    /// A column is not there.
    #[error("{} has no column `{column}`: it has {}", path.display(), known.join(", "))]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Those that are there.
        known: Vec<String>,
    },
    /// A value is no number of 0 or more.
    #[error("{}: row {row}: `{column}` is no number of 0 or more", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// The row, from 1, without the header.
        row: usize,
        /// The column.
        column: String,
    },
    /// A time is beyond the year 2200.
    #[error(
        "{}: row {row}: `{column}` is beyond the year 2200, and looks like {unit}: write seconds",
        path.display()
    )]
    Late {
        /// The file.
        path: PathBuf,
        /// The row, from 1, without the header.
        row: usize,
        /// The column.
        column: String,
        /// What it looks like.
        unit: &'static str,
    },
    /// What was read is no trace.
    #[error("{} is no trace", path.display())]
    Series {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: SeriesError,
    },
}

/// Reads a trace: Parquet if its name ends so, and CSV with a header otherwise. Rows in which a
/// value is missing are left out, as if nobody had looked then.
pub(crate) fn read(path: &Path, columns: &Columns) -> Result<Trace, TraceError> {
    let is_parquet = path.extension().is_some_and(|it| it == "parquet");
    let table = if is_parquet { of_parquet(path) } else { of_csv(path) }?;
    let wanted = Wanted::of(path, columns, &table)?;
    wanted.trace(path, &table)
}

/// Rows of a file, one after the other; a value that is no number is `None`, one that is missing
/// `Some(None)`. Each row has as many values as there are names.
struct Table {
    names: Vec<String>,
    values: Vec<Option<Option<f64>>>,
}

fn of_csv(path: &Path) -> Result<Table, TraceError> {
    let wrong = |source| TraceError::Csv { path: path.into(), source };
    let file = open(path)?;
    // Cells are trimmed below: the library would copy each record for that.
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(file);
    let names = reader.headers().map_err(wrong)?.iter().map(str::to_owned).collect();
    let value = |cell: &str| match cell.trim() {
        "" => Some(None),
        cell => cell.parse().ok().map(Some),
    };
    let (mut record, mut values) = (csv::StringRecord::new(), Vec::new());
    while reader.read_record(&mut record).map_err(wrong)? {
        values.extend(record.iter().map(value));
    }
    Ok(Table { names, values })
}

fn of_parquet(path: &Path) -> Result<Table, TraceError> {
    let wrong = |source| TraceError::Parquet { path: path.into(), source };
    let file = open(path)?;
    // Some of what a damaged file says the library takes for granted, and panics.
    let read = catch_unwind(AssertUnwindSafe(|| rows_of(file)));
    read.unwrap_or_else(|_| Err(ParquetError::General("it contradicts itself".into())))
        .map_err(wrong)
}

fn rows_of(file: File) -> Result<Table, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let fields = reader.metadata().file_metadata().schema_descr().root_schema().get_fields();
    let names = fields.iter().map(|it| it.name().to_owned()).collect();
    let are_nanos: Vec<bool> = fields.iter().map(|it| is_nanos(it)).collect();
    let mut values = Vec::new();
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let fields = row.get_column_iter().zip(&are_nanos);
        let value = |((_, field), is_nanos): ((_, &Field), &bool)| match field {
            Field::Long(ns) if *is_nanos => Some(Some(*ns as f64 / 1e9)),
            field => number(field),
        };
        values.extend(fields.map(value));
    }
    Ok(Table { names, values })
}

/// Whether a column has timestamps in nanoseconds: the library reads those as plain numbers.
fn is_nanos(column: &Type) -> bool {
    let kind = column.get_basic_info().logical_type_ref();
    matches!(kind, Some(LogicalType::Timestamp(it)) if it.unit == TimeUnit::NANOS)
}

/// A field as a number; times are seconds.
fn number(field: &Field) -> Option<Option<f64>> {
    Some(Some(match field {
        Field::Null => return Some(None),
        Field::Byte(it) => (*it).into(),
        Field::Short(it) => (*it).into(),
        Field::Int(it) => (*it).into(),
        Field::Long(it) => *it as f64,
        Field::UByte(it) => (*it).into(),
        Field::UShort(it) => (*it).into(),
        Field::UInt(it) => (*it).into(),
        Field::ULong(it) => *it as f64,
        Field::Float(it) => (*it).into(),
        Field::Double(it) => *it,
        Field::TimestampMillis(it) => *it as f64 / 1e3,
        Field::TimestampMicros(it) => *it as f64 / 1e6,
        _ => return None,
    }))
}

fn open(path: &Path) -> Result<File, TraceError> {
    File::open(path).map_err(|source| TraceError::Open { path: path.into(), source })
}

/// Which columns are read.
struct Wanted {
    time: usize,
    values: Values,
    paused: Option<usize>,
    /// What values count.
    unit: Counted,
}

enum Values {
    Rate(usize),
    /// What was sent and what was received; and the frames of both, where they are counted.
    Counters {
        amounts: [Option<usize>; 2],
        packets: [Option<usize>; 2],
    },
}

impl Wanted {
    fn of(path: &Path, columns: &Columns, table: &Table) -> Result<Self, TraceError> {
        let find = |name: &str| table.names.iter().position(|it| it == name);
        let need = |name: &str| {
            find(name).ok_or_else(|| TraceError::Column {
                path: path.into(),
                column: name.into(),
                known: table.names.clone(),
            })
        };
        // A column that is named has to be there, a usual one may be.
        let look = |named: &Option<String>, usual| match named {
            Some(name) => need(name).map(Some),
            None => Ok(find(usual)),
        };
        let time = need(columns.time.as_deref().unwrap_or("time"))?;
        let values = match &columns.rate {
            Some(rate) => Values::Rate(need(rate)?),
            None => {
                let amounts = [
                    look(&columns.sent, "sent_bytes")?,
                    look(&columns.received, "received_bytes")?,
                ];
                let packets = [
                    look(&columns.sent_packets, "sent_packets")?,
                    look(&columns.received_packets, "received_packets")?,
                ];
                if amounts == [None; 2] {
                    need("sent_bytes")?;
                }
                Values::Counters { amounts, packets }
            }
        };
        let usual = if columns.rate.is_some() { Counted::BITS } else { Counted::BYTES };
        let paused = look(&columns.paused, "paused_seconds")?;
        Ok(Self { time, values, paused, unit: columns.unit.unwrap_or(usual) })
    }

    fn trace(&self, path: &Path, table: &Table) -> Result<Trace, TraceError> {
        let columns = match self.values {
            Values::Rate(rate) => [Some(rate), None, None, None, self.paused],
            Values::Counters { amounts: [sent, received], packets: [out, come] } => {
                [sent, received, out, come, self.paused]
            }
        };
        let all = table.values.chunks_exact(table.names.len());
        let mut times = Vec::with_capacity(all.len());
        let mut readings = Vec::with_capacity(all.len());
        let mut rows = Vec::with_capacity(all.len());
        'rows: for (row, cells) in all.enumerate() {
            let mut values = [0.0; 6];
            let wanted = iter::once(Some(self.time)).chain(columns);
            for (value, column) in values.iter_mut().zip(wanted) {
                let Some(column) = column else { continue };
                *value = match cells[column] {
                    Some(Some(it)) if it >= 0.0 && it.is_finite() => it,
                    Some(None) => continue 'rows,
                    _ => {
                        return Err(TraceError::Number {
                            path: path.into(),
                            row: row + 1,
                            column: table.names[column].clone(),
                        });
                    }
                };
            }
            let [time, values @ ..] = values;
            if let Some(unit) = unit_of_late(time) {
                let column = table.names[self.time].clone();
                return Err(TraceError::Late { path: path.into(), row: row + 1, column, unit });
            }
            // Seconds since 1970 are exact to a microsecond.
            times.push(Instant::from_nanos((time * 1e6).round() as u64 * 1000));
            readings.push(values);
            rows.push(row + 1);
        }
        let wrong = |source| TraceError::Series {
            path: path.into(),
            source: match source {
                // Rows that were left out count, too.
                SeriesError::Backwards { row } => SeriesError::Backwards { row: rows[row - 1] },
                source => source,
            },
        };
        let [sent, received, out, come, held] = totals(&readings);
        let traced = |(first, last): (&Instant, &Instant)| last.since(*first).as_secs_f64();
        let secs = times.first().zip(times.last()).map_or(0.0, traced);
        let paused = self.paused.filter(|_| secs > 0.0).map(|_| held / secs);
        let bits = self.unit.bits();
        let Values::Counters { amounts, packets } = self.values else {
            let rates: Vec<f64> = readings.iter().map(|it| it[0] * bits as f64).collect();
            let series = of_rates(&times, &rates).map_err(wrong)?;
            return Ok(Trace { series, sends: None, frame: None, paused });
        };
        let counters: Vec<_> =
            readings.iter().map(|[sent, received, ..]| [*sent as u64, *received as u64]).collect();
        let series = Series::from_counters(&times, &counters, bits).map_err(wrong)?;
        let sends = match amounts {
            [Some(_), None] => Some(1.0),
            [None, _] => Some(0.0),
            [Some(_), Some(_)] => (sent + received > 0.0).then(|| sent / (sent + received)),
        };
        // Frames of one direction say nothing of the other's.
        let is_counted = amounts.map(|it| it.is_some()) == packets.map(|it| it.is_some());
        let bytes = (sent + received) * bits as f64 / 8.0;
        let frame = is_counted.then(|| mean_frame(bytes, out + come)).flatten();
        Ok(Trace { series, sends, frame, paused })
    }
}

/// By how much each counter has grown. One that goes back has begun anew.
fn totals<const N: usize>(readings: &[[f64; N]]) -> [f64; N] {
    let mut totals = [0.0; N];
    for pair in readings.windows(2) {
        for (place, total) in totals.iter_mut().enumerate() {
            *total += (pair[1][place] - pair[0][place]).max(0.0);
        }
    }
    totals
}

/// The mean bytes of a frame, to the nearest.
pub(crate) fn mean_frame(bytes: f64, packets: f64) -> Option<u64> {
    (packets > 0.0).then(|| (bytes / packets).round().max(1.0) as u64)
}

/// What a time beyond the year 2200 looks like, if it was meant to be one before.
fn unit_of_late(time: f64) -> Option<&'static str> {
    const YEAR_2200: f64 = 7_258_118_400.0;
    if time < YEAR_2200 {
        None
    } else if time < YEAR_2200 * 1e3 {
        Some("milliseconds")
    } else if time < YEAR_2200 * 1e6 {
        Some("microseconds")
    } else {
        Some("nanoseconds")
    }
}

/// Rates in bits a second that count from their row to the next. They are read as a counter of
/// bits: gaps are then found as in counters.
pub(crate) fn of_rates(times: &[Instant], rates: &[f64]) -> Result<Series, SeriesError> {
    let mut sum = 0.0;
    let mut counter = Vec::with_capacity(times.len());
    for (place, time) in times.iter().enumerate() {
        counter.push([sum as u64]);
        if let Some(next) = times.get(place + 1) {
            sum += rates[place] * next.since(*time).as_secs_f64();
        }
    }
    Series::from_counters(times, &counter, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::Arc;

    use parquet::data_type::{DataType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use units::Span;

    fn read_csv(text: &str, columns: &Columns) -> Result<Trace, TraceError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, text).unwrap();
        read(&path, columns)
    }

    #[test]
    fn counters_of_both_directions_become_rates() {
        let text = "time, sent_bytes, received_bytes\n0,0,100\n10,30,110\n20,60,120\n30,,9\n";
        let Trace { series, sends, frame, paused } = read_csv(text, &Columns::default()).unwrap();
        assert_eq!(series.rates().collect::<Vec<_>>(), [32, 32]);
        assert_eq!((frame, paused), (None, None));
        assert_eq!((series.step(), sends), (Span::from_secs(10), Some(0.75)));
    }

    #[test]
    fn rates_count_until_the_next_row() {
        let columns =
            Columns { time: Some("t".into()), rate: Some("bits".into()), ..Columns::default() };
        let text = "bits,t\n8,1790000000.5\n16,1790000001.5\n24,1790000002.5\n0,1790000003.5\n";
        let Trace { series, sends, .. } = read_csv(text, &columns).unwrap();
        assert_eq!((series.rates().collect::<Vec<_>>(), sends), (vec![8, 16, 24], None));
    }

    #[test]
    fn what_is_counted_may_be_said() {
        let counted =
            |unit: &str| Columns { unit: Some(unit.parse().unwrap()), ..Columns::default() };
        let text = "time,sent_bytes\n0,0\n1,2\n2,3\n";
        let rates =
            |columns: &Columns| read_csv(text, columns).unwrap().series.rates().collect::<Vec<_>>();
        assert_eq!(rates(&counted("kib")), [16 << 10, 8 << 10]);
        assert_eq!(rates(&counted("bit")), [2, 1]);
        let rate = Some("sent_bytes".to_owned());
        assert_eq!(rates(&Columns { rate, ..counted("kb") }), [0, 16_000]);
    }

    #[test]
    fn a_counter_that_begins_anew_is_seen_beside_the_other() {
        let text = "time,sent_bytes,received_bytes\n0,0,900\n1,10,900\n2,2000,5\n3,2010,5\n";
        let Trace { series, sends, .. } = read_csv(text, &Columns::default()).unwrap();
        assert_eq!((series.rates().collect::<Vec<_>>(), sends), (vec![80, 80], Some(1.0)));
        assert_eq!(series.faults().len(), 1);
    }

    #[test]
    fn frames_are_counted_beside_all_bytes_or_not_known() {
        let frame = |text: &str, columns: &Columns| read_csv(text, columns).unwrap().frame;
        // 2100 bytes in 4 frames; those of the counter that begins anew do not count.
        let both = "time,sent_bytes,received_bytes,sent_packets,received_packets\n\
                    0,0,500,0,7\n1,1000,600,1,8\n2,2000,0,2,0\n3,2000,0,3,0\n";
        assert_eq!(frame(both, &Columns::default()), Some(525));
        let one_of_two = both.replace("received_packets", "other");
        assert_eq!(frame(&one_of_two, &Columns::default()), None);
        let named = Columns { received_packets: Some("other".into()), ..Columns::default() };
        assert_eq!(frame(&one_of_two, &named), Some(525));
        let error = read_csv(both, &named).unwrap_err();
        assert!(matches!(error, TraceError::Column { .. }), "{error}");
        // A direction whose bytes are not counted has no frames to be counted.
        let sent = "time,sent_bytes,sent_packets\n0,0,0\n1,3,2\n2,4,3\n";
        assert_eq!(frame(sent, &Columns::default()), Some(1));
        assert_eq!(
            frame(sent, &Columns { unit: "kib".parse().ok(), ..Columns::default() }),
            Some(1365)
        );
        assert_eq!(
            frame(&sent.replace("sent_packets", "received_packets"), &Columns::default()),
            None
        );
        let none = "time,sent_bytes,sent_packets\n0,5,0\n1,5,0\n2,5,0\n";
        assert_eq!(frame(none, &Columns::default()), None);
    }

    #[test]
    fn pauses_are_a_share_of_the_traces_time() {
        let paused = |columns: &Columns| {
            let text = "time,sent_bytes,paused_seconds\n10,0,7\n20,9,8\n30,9,0\n50,9,1\n";
            read_csv(text, columns).unwrap().paused
        };
        // Of 40 seconds; the counter begins anew.
        assert_eq!(paused(&Columns::default()), Some(0.05));
        let rate = Columns { rate: Some("sent_bytes".into()), ..Columns::default() };
        assert_eq!(paused(&rate), Some(0.05));
        let named = Columns { paused: Some("sent_bytes".into()), ..Columns::default() };
        assert_eq!(paused(&named), Some(0.225));
    }

    #[test]
    fn times_that_are_no_seconds_are_refused() {
        let told = |time: &str| {
            let text = format!("time,sent_bytes\n1790000000,0\n{time},1\n");
            read_csv(&text, &Columns::default()).unwrap_err().to_string()
        };
        for (time, unit) in [
            ("1790000001000", "milliseconds"),
            ("1790000001000000", "microseconds"),
            ("1790000001000000000", "nanoseconds"),
            ("1e300", "nanoseconds"),
        ] {
            let end = format!(
                "row 2: `time` is beyond the year 2200, and looks like {unit}: write seconds"
            );
            assert!(told(time).ends_with(&end), "{}", told(time));
        }
    }

    #[test]
    fn what_is_no_trace_says_where() {
        let told = |text| read_csv(text, &Columns::default()).unwrap_err().to_string();
        let column = told("time,bytes\n0,0\n");
        assert!(column.ends_with("no column `sent_bytes`: it has time, bytes"), "{column}");
        let number = told("time,sent_bytes\n0,0\n1,many\n");
        assert!(number.ends_with("row 2: `sent_bytes` is no number of 0 or more"), "{number}");
        let number = told("time,sent_bytes\n-1,0\n");
        assert!(number.ends_with("row 1: `time` is no number of 0 or more"), "{number}");
        assert!(told("time,sent_bytes\n0,0,7\n").ends_with("is no CSV"));
        // Rows that are left out count.
        let backwards = read_csv("time,sent_bytes\n5,0\n6,\n4,0\n", &Columns::default());
        let Err(TraceError::Series { source, .. }) = backwards else { panic!("{backwards:?}") };
        assert_eq!(source, SeriesError::Backwards { row: 3 });
        assert!(told("time,sent_bytes\n0,0\n").ends_with("is no trace"));
    }

    /// Writes one row group of two columns; the last value of the second is missing.
    fn write_parquet<T: DataType>(path: &Path, time: &str, times: &[T::T]) {
        let schema = format!("message row {{ required {time}; optional int64 sent_bytes; }}");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let file = File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<T>().write_batch(times, None, None).unwrap();
        column.close().unwrap();
        let mut bytes = group.next_column().unwrap().unwrap();
        let levels = [1, 1, 1, 0];
        bytes.typed::<Int64Type>().write_batch(&[5, 6, 8], Some(&levels), None).unwrap();
        bytes.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn timestamps_of_parquet_say_their_unit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        for (unit, second) in [("MILLIS", 1_000), ("MICROS", 1_000_000), ("NANOS", 1_000_000_000)] {
            let times = [0, 2, 4, 6].map(|half| 1_790_000_000 * second + half * second / 4);
            let column = format!("int64 time (TIMESTAMP({unit},true))");
            write_parquet::<Int64Type>(&path, &column, &times);
            let Trace { series, .. } = read(&path, &Columns::default()).unwrap();
            assert_eq!(series.step(), Span::from_millis(500), "{unit}");
            assert_eq!(series.rates().collect::<Vec<_>>(), [16, 32], "{unit}");
            // Without a unit it has to be seconds.
            write_parquet::<Int64Type>(&path, "int64 time", &times);
            let error = read(&path, &Columns::default()).unwrap_err();
            assert!(matches!(error, TraceError::Late { row: 1, .. }), "{error}");
        }
    }

    #[test]
    fn parquet_says_the_same_as_csv_and_may_be_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write_parquet::<DoubleType>(&path, "double time", &[0.0, 0.5, 1.0, 1.5]);
        let Trace { series, sends, .. } = read(&path, &Columns::default()).unwrap();
        assert_eq!((series.rates().collect::<Vec<_>>(), sends), (vec![16, 32], Some(1.0)));

        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 0xff;
            fs::write(&path, &damaged).unwrap();
            // Whatever comes of it, it is told.
            let _ = read(&path, &Columns::default());
        }
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(
            read(&path, &Columns::default()).unwrap_err().to_string().ends_with("is no Parquet")
        );
    }
}

//! Tables of rows: Parquet, and CSV for those who have nothing better.

use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::samples::Sample;

/// The columns that are read again.
pub(super) const KIND: &str = "kind";
pub(super) const FCT: &str = "fct_ns";
pub(super) const START: &str = "start_ns";
pub(super) const SPAN: &str = "span_ns";
pub(super) const PORT: &str = "port";
pub(super) const CLASS: &str = "class";
pub(super) const QUEUE: &str = "queue_bytes";
pub(super) const PAUSED: &str = "paused";

/// How many rows are in memory as columns at once.
const GROUP: usize = 1 << 17;

/// What is a row of a table.
pub(super) trait Told: Sized {
    /// All columns, in the order in which files have them.
    fn columns() -> Vec<Column<Self>>;
}

/// A column: what it is called, and where it comes from.
pub(super) struct Column<R> {
    name: &'static str,
    /// Whether every row has it.
    is_full: bool,
    values: Values<R>,
}

/// What a column has.
pub(super) enum Values<R> {
    Text(for<'a> fn(&'a R) -> Option<&'a str>),
    Whole(fn(&R) -> Option<u64>),
    Real(fn(&R) -> Option<f64>),
}

/// A column that every row has.
pub(super) fn full<R>(name: &'static str, values: Values<R>) -> Column<R> {
    Column { name, is_full: true, values }
}

/// A column that some rows have.
pub(super) fn partial<R>(name: &'static str, values: Values<R>) -> Column<R> {
    Column { name, is_full: false, values }
}

/// Writes rows as Parquet; `facts` go into the file's metadata. The same rows and facts give the
/// same bytes.
///
/// Nothing is compressed: names are kept once, and times as the differences from one row to the
/// next. A compressor finds hardly more.
pub(super) fn write_parquet<R: Told>(
    file: &File,
    facts: &[(&str, String)],
    mut rows: impl Iterator<Item = R>,
) -> Result<()> {
    let columns = R::columns();
    let facts = facts.iter().map(|(name, fact)| KeyValue::new((*name).to_owned(), fact.clone()));
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("zovn version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(facts.collect()));
    for column in &columns {
        let encoding = match column.values {
            Values::Text(_) => continue,
            Values::Whole(_) => Encoding::DELTA_BINARY_PACKED,
            Values::Real(_) => Encoding::PLAIN,
        };
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, encoding);
    }
    let schema = Arc::new(parse_message_type(&schema(&columns))?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
    loop {
        let group: Vec<R> = rows.by_ref().take(GROUP).collect();
        if group.is_empty() {
            break;
        }
        let mut into = writer.next_row_group()?;
        for column in &columns {
            let is_full = column.is_full;
            match column.values {
                Values::Text(get) => fill::<ByteArrayType>(
                    &mut into,
                    is_full,
                    group.iter().map(|row| get(row).map(ByteArray::from)),
                ),
                Values::Whole(get) => fill::<Int64Type>(
                    &mut into,
                    is_full,
                    group.iter().map(|row| get(row).map(u64::cast_signed)),
                ),
                Values::Real(get) => fill::<DoubleType>(&mut into, is_full, group.iter().map(get)),
            }?;
        }
        into.close()?;
    }
    writer.close()?;
    Ok(())
}

/// Writes the next column of a row group.
fn fill<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    is_full: bool,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<()> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    let mut column = group.next_column()?.expect("there are as many columns as the schema has");
    column.typed::<T>().write_batch(&values, (!is_full).then_some(&levels), None)?;
    column.close()
}

fn schema<R>(columns: &[Column<R>]) -> String {
    let fields = columns.iter().map(|column| {
        let need = if column.is_full { "required" } else { "optional" };
        let name = column.name;
        match column.values {
            Values::Text(_) => format!("{need} binary {name} (UTF8);"),
            Values::Whole(_) => format!("{need} int64 {name};"),
            Values::Real(_) => format!("{need} double {name};"),
        }
    });
    format!("message row {{ {} }}", fields.collect::<Vec<_>>().join(" "))
}

/// The completion times of one kind of rows, in nanoseconds.
pub(super) fn read_times(file: File, kind: &str) -> Result<Vec<u64>> {
    let reader = careful(|| SerializedFileReader::new(file))?;
    let mut times = Vec::new();
    for group in 0..reader.num_row_groups() {
        let kinds: Vec<ByteArray> = read::<ByteArrayType>(&reader, group, KIND)?;
        let all: Vec<i64> = read::<Int64Type>(&reader, group, FCT)?;
        let wanted = kinds.iter().zip(all).filter(|(it, _)| it.data() == kind.as_bytes());
        times.extend(wanted.map(|(_, ns)| ns.cast_unsigned()));
    }
    Ok(times)
}

/// Tells every sample.
pub(super) fn read_samples(file: File, mut tell: impl FnMut(Sample<'_>)) -> Result<()> {
    let reader = careful(|| SerializedFileReader::new(file))?;
    for group in 0..reader.num_row_groups() {
        let text = |name| read::<ByteArrayType>(&reader, group, name);
        let whole = |name| read::<Int64Type>(&reader, group, name);
        let (ports, classes) = (text(PORT)?, text(CLASS)?);
        let (starts, spans, queues) = (whole(START)?, whole(SPAN)?, whole(QUEUE)?);
        let paused = read::<DoubleType>(&reader, group, PAUSED)?;
        for (row, paused) in paused.into_iter().enumerate() {
            tell(Sample {
                start_ns: starts[row].cast_unsigned(),
                span_ns: spans[row].cast_unsigned(),
                port: ports[row].as_utf8()?,
                class: classes[row].as_utf8()?,
                queue_bytes: queues[row].cast_unsigned(),
                paused,
            });
        }
    }
    Ok(())
}

/// What the library reads of a file, which may be damaged: some of what a file says it takes for
/// granted, and panics.
fn careful<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    // What was half read is dropped.
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(ParquetError::General("it contradicts itself".into())))
}

/// A column of a row group, of which every row has a value.
fn read<T: DataType>(
    reader: &SerializedFileReader<File>,
    group: usize,
    name: &str,
) -> Result<Vec<T::T>> {
    careful(|| read_column::<T>(reader, group, name))
}

fn read_column<T: DataType>(
    reader: &SerializedFileReader<File>,
    group: usize,
    name: &str,
) -> Result<Vec<T::T>> {
    let group = reader.get_row_group(group)?;
    let place = group.metadata().columns().iter().position(|it| it.column_path().string() == name);
    let place = place.ok_or_else(|| ParquetError::General(format!("it has no column `{name}`")))?;
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let column = group.get_column_reader(place)?;
    if group.metadata().column(place).column_type() != T::get_physical_type() {
        return Err(ParquetError::General(format!("its column `{name}` is of another type")));
    }
    let mut values = Vec::new();
    get_typed_column_reader::<T>(column).read_records(rows, None, None, &mut values)?;
    if values.len() != rows {
        return Err(ParquetError::General(format!(
            "its column `{name}` has {} values of {rows}",
            values.len()
        )));
    }
    Ok(values)
}

/// Writes rows as CSV (RFC 4180), under a line with the columns' names. No value has a comma or a
/// quote.
pub(super) fn write_csv<R: Told>(
    mut out: impl Write,
    rows: impl Iterator<Item = R>,
) -> io::Result<()> {
    let columns = R::columns();
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in rows {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            match column.values {
                Values::Text(get) => {
                    get(&row).map_or(Ok(()), |text| out.write_all(text.as_bytes()))
                }
                Values::Whole(get) => get(&row).map_or(Ok(()), |number| write!(out, "{number}")),
                Values::Real(get) => get(&row).map_or(Ok(()), |number| write!(out, "{number}")),
            }?;
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}

//! Attacks the reader of nlog's rules, and the engine with whatever rules it lets through.

use nlog::{Batch, Engine, Kind, Library, Program, Role, Scalar, Value, Values};

/// Reads `bytes` as a rule file. If they are one, a tuple of each input comes and goes.
pub fn attack(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let program = match Program::parse(&[("rules", &text)]) {
        Ok(program) => program,
        Err(faults) => {
            let lines = text.split('\n').count();
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|it| (1..=lines).contains(&(it.line as usize))));
            return;
        }
    };
    // Functions are what the fuzzer cannot write.
    let Ok(mut engine) = Engine::new(program, Library::new(), Values::new(1)) else { return };
    let (mut come, mut go) = (Batch::new(), Batch::new());
    let inputs: Vec<_> = engine.tables().filter(|it| engine.role(*it) == Role::Input).collect();
    for table in inputs {
        let kinds = engine.kinds(table).to_vec();
        let mut value = |kind: &Kind| -> Option<Value> {
            let values = engine.values_mut();
            Some(match kind {
                Kind::One(Scalar::Bool) => values.bool(true),
                Kind::One(Scalar::Int) => values.int(1),
                Kind::One(Scalar::Text) => values.text("a"),
                Kind::One(Scalar::Bytes) => values.bytes(b"a"),
                Kind::One(Scalar::Id) => values.id(1),
                Kind::Set(_) => return None,
            })
        };
        if let Some(tuple) = kinds.iter().map(&mut value).collect::<Option<Vec<Value>>>() {
            come.insert(table, &tuple);
            go.delete(table, &tuple);
        }
    }
    if engine.commit(1, &come).is_ok() {
        engine.commit(2, &go).expect("what came can go");
        assert!(engine.tables().all(|table| engine.len(table) == 0));
    }
}

fn main() -> std::process::ExitCode { measure::endpoint::run(&std::env::args().nth(1).unwrap()) }

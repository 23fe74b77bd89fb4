//! What commands that ask an agent have in common: which agent, and how its answer is shown.

use std::io;
use std::path::PathBuf;

use api::{Client, ClientError};

use crate::ending::show;

/// Which agent is asked.
#[derive(Clone, clap::Args)]
pub struct AgentArgs {
    /// The agent's socket.
    #[arg(long, value_name = "PATH", default_value = api::DEFAULT_SOCKET)]
    socket: PathBuf,
}

/// Which agent is asked, and how its answer is shown.
#[derive(Clone, clap::Args)]
pub struct AnswerArgs {
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

impl AgentArgs {
    /// A client of the agent.
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::new(&self.socket)
    }
}

impl AnswerArgs {
    /// A client of the agent.
    pub fn client(&self) -> Result<Client, ClientError> {
        self.agent.client()
    }

    /// Prints an answer as JSON, or as a table.
    pub fn show(
        &self,
        answer: &impl serde::Serialize,
        table: impl FnOnce() -> String,
    ) -> io::Result<()> {
        show(answer, self.json, table)
    }
}

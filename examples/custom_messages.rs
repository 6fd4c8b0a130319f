//! Messages of the program's own in the transcript: they are kept, saved and shown, and the model sees of them what a hook
//! makes of them.

use std::sync::Arc;

use serde_json::{Map, json};
use steerage::{
    AbortSignal, Agent, AgentOptions, Builtin, Hooks, Message, Result, message::CustomMessage,
    transcript,
};

fn main() -> Result<()> {
    // Called before each request. Without it the model sees nothing of messages with roles of one's own.
    let convert = |messages: Vec<Arc<Message>>, _signal: &AbortSignal| {
        let for_model = |message: Arc<Message>| match &*message {
            Message::Custom(custom) if custom.role() == "file" => {
                let name = custom.fields()["name"].as_str().unwrap_or("a file");
                Some(Arc::new(Message::user(format!("My open file is {name}."))))
            }
            Message::Custom(_) => None,
            _ => Some(message),
        };
        Ok(messages.into_iter().filter_map(for_model).collect())
    };
    let options = AgentOptions {
        stream: Some(Builtin::unpaced().into()),
        hooks: Hooks { convert_to_llm: Some(Arc::new(convert)), ..Hooks::default() },
        ..AgentOptions::default()
    };
    let agent = Agent::new(Builtin::model(), options)?;

    let file = Map::from_iter([("name".to_owned(), json!("report"))]);
    agent.push_message(Message::Custom(CustomMessage::new("file", file)));
    let note = Map::from_iter([("text".to_owned(), json!("only people see this"))]);
    agent.push_message(Message::Custom(CustomMessage::new("note", note)));
    println!("{}", agent.prompt("What is my open file?")?.wait()?.text);

    // They are saved with the rest.
    let (messages, _skipped) = transcript::from_json(&transcript::to_json(&agent.messages())?)?;
    let roles: Vec<&str> = messages.iter().map(Message::role).collect();
    println!("{}", roles.join(", "));
    Ok(())
}

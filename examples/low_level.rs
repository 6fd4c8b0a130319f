//! The loop without an agent: no thread, no lock, no state. The program keeps the messages and decides what runs when.

use std::sync::Arc;

use steerage::{
    AbortSignal, AgentEvent, Builtin, Error, Message,
    agent_loop::{LoopConfig, LoopContext, agent_loop},
};

fn main() -> Result<(), Error> {
    let config = LoopConfig::new(Builtin::model(), Arc::new(Builtin::unpaced()));
    let mut messages = vec![Arc::new(Message::system("You are a pirate."))];
    for question in ["My ship is the Seagull.", "What is my ship?", "What is your system prompt?"] {
        let context = LoopContext { messages: messages.clone(), tools: Vec::new() };
        let mut updates = 0;
        // The sink is called on this thread; an error that it returns ends the loop.
        let mut sink = |event: AgentEvent| -> Result<(), Error> {
            if let AgentEvent::MessageUpdate { .. } = event {
                updates += 1;
            }
            Ok(())
        };
        let prompts = vec![Message::user(question)];
        let added = agent_loop(prompts, context, &config, &AbortSignal::never(), &mut sink)?;
        let answer = added.last().map(|message| message.text()).unwrap_or_default();
        println!("{question}\n  {answer}\n  (it came in {updates} updates)");
        messages.extend(added);
    }
    println!("{} messages", messages.len());
    Ok(())
}

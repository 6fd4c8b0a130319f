//! Makes a request ready for the wire API of its model.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    abort::AbortSignal,
    error::{Error, ErrorKind, Result},
    model::Model,
    models::{
        Models, keys,
        provider::{KeySource, Provider},
    },
    provider::{add_vendor_headers, azure_openai_responses},
    stream::{Identity, PayloadHook, StreamFn, StreamRequest},
};

type Ready = (Arc<dyn StreamFn>, StreamRequest);

impl Models {
    /// Finds who answers a request, and completes it: key, headers, address, variables, identity.
    ///
    /// A model of a provider that is not known is asked at its own address, with the key that the request brings.
    pub(super) fn prepare(
        &self,
        mut request: StreamRequest,
        signal: &AbortSignal,
    ) -> Result<Ready> {
        if signal.is_aborted() {
            return Err(Error::aborted());
        }
        let entry = self.entry(&request.model.provider).ok();
        let provider = entry.as_ref().map_or_else(
            || Arc::new(Provider::new(&request.model.provider, "")),
            |entry| entry.provider.clone(),
        );
        if let Some(stream) = &provider.stream {
            return Ok((stream.clone(), request));
        }
        let stream = self.inner.wires.read().get(&request.model.api)?;
        self.add_key(&mut request, &provider, signal)?;
        if signal.is_aborted() {
            return Err(Error::aborted());
        }
        let carried = self.inner.options.environment.carried();
        request.options.env.extend_from_slice(carried);
        self.add_address(&mut request)?;
        add_identity(&mut request, self.inner.options.identity.as_ref());
        add_vendor_headers(&mut request);
        Ok((stream, request))
    }

    /// Adds the key, and the headers of the provider, below those of model and request.
    fn add_key(
        &self,
        request: &mut StreamRequest,
        provider: &Provider,
        signal: &AbortSignal,
    ) -> Result<()> {
        let mut below = provider.headers.clone();
        let brings_key = keys::has_key_header(&request.options.headers)
            || keys::has_key_header(&below)
            || has_key_header(&request.model);
        let found = self.key(provider, &request.options, signal)?.map(|found| {
            request.options.env.extend(found.env);
            (found.key, found.header)
        });
        match found.filter(|(key, _)| !key.is_empty()) {
            Some((key, Some(header))) => {
                below.insert(0, (header, Some(format!("Bearer {}", key.expose()))));
                request.options.api_key = None;
            }
            Some((key, None)) => request.options.api_key = Some(key),
            None if brings_key || matches!(provider.key, KeySource::None) => (),
            None => return Err(keys::missing(provider)),
        }
        below.retain(|(name, _)| {
            !request.model.headers.keys().any(|it| it.eq_ignore_ascii_case(name))
        });
        request.options.headers.splice(0..0, below);
        Ok(())
    }

    fn add_address(&self, request: &mut StreamRequest) -> Result<()> {
        let is_at_azure = request.model.provider == "azure";
        if is_at_azure && request.model.api == "openai-completions" {
            return Self::add_azure(request);
        }
        let model = &request.model;
        // An address at Azure is made of variables and options.
        if model.base_url.is_empty() && model.api != "azure-openai-responses" {
            let message = format!("the model `{}` has no base URL", model.id);
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let filled = self.filled(&model.provider, &model.base_url, &request.options.env)?;
        if filled != model.base_url {
            Arc::make_mut(&mut request.model).base_url = filled;
        }
        Ok(())
    }

    /// Azure's models that speak chat completions have the address and the names of those that speak Responses.
    fn add_azure(request: &mut StreamRequest) -> Result<()> {
        let base_url = azure_openai_responses::address(request)?;
        let deployment = azure_openai_responses::deployment(request);
        if deployment != request.model.id {
            name_deployment(&mut request.options.hooks.on_payload, deployment);
        }
        Arc::make_mut(&mut request.model).base_url = base_url;
        Ok(())
    }

    /// Fills the variables into an address that has some: `{CLOUDFLARE_ACCOUNT_ID}`.
    pub(super) fn filled(
        &self,
        provider: &str,
        url: &str,
        env: &[(String, String)],
    ) -> Result<String> {
        let mut filled = String::new();
        let mut rest = url;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let Some((name, after)) = after.split_once('}').filter(|(name, _)| is_variable(name))
            else {
                filled.push('{');
                rest = after;
                continue;
            };
            let value = self.inner.options.environment.get(name, env).ok_or_else(|| {
                let message = format!(
                    "the address of `{provider}` needs the variable {name}: set it, or StreamOptions::env"
                );
                Error::new(ErrorKind::Configuration, message)
            })?;
            filled.push_str(value.trim());
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

/// Variables are in capitals; other names in braces are the API's business.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_')
}

fn has_key_header(model: &Model) -> bool {
    model
        .headers
        .iter()
        .any(|(name, value)| matches!(value, Value::String(_)) && keys::is_key_header(name))
}

/// Puts the name of the deployment into the body, after the host has seen it: the model keeps its id for all else.
fn name_deployment(hook: &mut Option<PayloadHook>, deployment: String) {
    let own = hook.take();
    *hook = Some(Arc::new(move |body, model| {
        let changed = own.as_ref().map_or(Ok(None), |own| own(body, model))?;
        let mut body = changed.unwrap_or_else(|| body.clone());
        if let Some(fields) = body.as_object_mut() {
            fields.insert("model".to_owned(), deployment.clone().into());
        }
        Ok(Some(body))
    }));
}

/// Says who the program is where the request does not, part by part.
fn add_identity(request: &mut StreamRequest, usual: Option<&Identity>) {
    let Some(usual) = usual else { return };
    let identity = request.options.identity.get_or_insert_default();
    if identity.user_agent.is_none() {
        identity.user_agent.clone_from(&usual.user_agent);
    }
    if identity.attribution.is_none() {
        identity.attribution.clone_from(&usual.attribution);
    }
}

//! Arguments, with variables put in.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apollo_parser::cst::{Arguments, OperationDefinition, Type, Value};

use super::Unread::{self, Wrong};
use crate::facts::{Key, Term};

/// The values of an operation's variables: the request's, else the defaults (GraphQL specification
/// §6.1.2). `None`: declared, and neither given nor defaulted.
pub(super) struct Variables {
    values: HashMap<String, Option<Term>>,
}

const INCOMPLETE: Unread = Wrong("a document with a syntax error");

impl Variables {
    pub(super) fn of(operation: &OperationDefinition, given: &BTreeMap<Key, Term>) -> Result<Variables, Unread> {
        let mut variables = Variables { values: HashMap::new() };
        let definitions = operation.variable_definitions().into_iter().flat_map(|all| all.variable_definitions());
        for definition in definitions {
            let name: String =
                definition.variable().and_then(|variable| variable.name()).ok_or(INCOMPLETE)?.text().into();
            let value = match given.get(&Key::Str(name.as_str().into())) {
                Some(value) => Some(value.clone()),
                None => match definition.default_value() {
                    // A default is constant: it looks up no variable.
                    Some(default) => variables.value(default.value().ok_or(INCOMPLETE)?)?,
                    None if matches!(definition.ty(), Some(Type::NonNullType(_))) => {
                        return Err(Wrong("a variable without a value"));
                    }
                    None => None,
                },
            };
            if variables.values.insert(name, value).is_some() {
                return Err(Wrong("two variables of one name"));
            }
        }
        Ok(variables)
    }

    /// A field's arguments as a map; what has no value is left out.
    pub(super) fn arguments(&self, arguments: Option<Arguments>) -> Result<Term, Unread> {
        let mut entries = BTreeMap::new();
        for argument in arguments.into_iter().flat_map(|all| all.arguments()) {
            let name = argument.name().ok_or(INCOMPLETE)?;
            let value = self.value(argument.value().ok_or(INCOMPLETE)?)?;
            insert(&mut entries, name.text().as_str(), value)?;
        }
        Ok(present(entries))
    }

    /// A value; `None` for a variable without one. The depth is bounded before parsing.
    fn value(&self, value: Value) -> Result<Option<Term>, Unread> {
        Ok(Some(match value {
            Value::Variable(variable) => {
                let name = variable.name().ok_or(INCOMPLETE)?;
                return self
                    .values
                    .get(name.text().as_str())
                    .cloned()
                    .ok_or(Wrong("a variable that the operation doesn't declare"));
            }
            Value::StringValue(text) => Term::str(String::from(&text)),
            Value::IntValue(number) => {
                let literal = number.int_token().ok_or(INCOMPLETE)?;
                literal.text().parse().map_or_else(|_| Term::str(literal.text()), Term::Integer)
            }
            Value::FloatValue(number) => Term::str(number.float_token().ok_or(INCOMPLETE)?.text()),
            Value::BooleanValue(value) => Term::Bool(value.true_token().is_some()),
            Value::NullValue(_) => Term::Null,
            Value::EnumValue(name) => Term::str(name.name().ok_or(INCOMPLETE)?.text()),
            Value::ListValue(list) => {
                let items: Result<Vec<_>, _> =
                    list.values().map(|item| Ok(self.value(item)?.unwrap_or(Term::Null))).collect();
                Term::Array(items?.into())
            }
            Value::ObjectValue(object) => {
                let mut entries = BTreeMap::new();
                for field in object.object_fields() {
                    let name = field.name().ok_or(INCOMPLETE)?;
                    let value = self.value(field.value().ok_or(INCOMPLETE)?)?;
                    insert(&mut entries, name.text().as_str(), value)?;
                }
                present(entries)
            }
        }))
    }
}

fn insert(entries: &mut BTreeMap<Key, Option<Term>>, name: &str, value: Option<Term>) -> Result<(), Unread> {
    match entries.insert(Key::Str(name.into()), value) {
        None => Ok(()),
        Some(_) => Err(Wrong("an argument that stands there twice")),
    }
}

fn present(entries: BTreeMap<Key, Option<Term>>) -> Term {
    Term::Map(Arc::new(entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()))
}

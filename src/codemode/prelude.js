// Runs once in every VM before the script: makes what the script sees out of one native function, then freezes it all.
// `bridge(kind, first, second)` checks everything again on its side, so nothing here is trusted by the host.
(function (bridge, setup, isProxy) {
  "use strict";
  const { apply, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = Reflect;
  const { freeze, create, keys } = Object;
  const { isArray } = Array;
  const { isError } = Error;
  const { parse } = JSON;
  const plainObject = Object.prototype;
  const then = Promise.prototype.then;
  const wellFormed = String.prototype.toWellFormed;
  const lowerCase = String.prototype.toLowerCase;
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  const clean = (text) => apply(wellFormed, text, []);
  const noop = () => {};

  // ---- built-ins that the engine does not interrupt, bounded by the size of what they are given ----

  const MOST_STEPS = 2e8;
  const LONGEST = 1e7;

  const replaceMethod = (owner, name, make) => {
    const native = owner[name];
    const method = make(native)[name];
    defineProperty(method, "length", { value: native.length, configurable: true });
    defineProperty(owner, name, { value: method, writable: true, enumerable: false, configurable: true });
  };

  const refuseQuadratic = (text, part) => {
    if (part.length * (text.length - part.length) > MOST_STEPS) {
      throw new RangeError(
        `searching ${part.length} characters in ${text.length} would take too long: search for less, or use a regular expression`,
      );
    }
  };
  const asText = (value, name) => {
    if (value === undefined || value === null) {
      throw new TypeError(`String.prototype.${name} was called on ${value}`);
    }
    return `${value}`;
  };
  for (const name of ["indexOf", "lastIndexOf", "includes"]) {
    replaceMethod(String.prototype, name, (native) => ({
      [name](part, ...rest) {
        const text = asText(this, name);
        if (name === "includes" && isObject(part) && part[Symbol.match]) {
          throw new TypeError("String.prototype.includes takes no regular expression");
        }
        const sought = `${part}`;
        refuseQuadratic(text, sought);
        return apply(native, text, [sought, ...rest]);
      },
    }));
  }
  for (const [name, symbol] of [["split", Symbol.split], ["replace", Symbol.replace], ["replaceAll", Symbol.replace]]) {
    replaceMethod(String.prototype, name, (native) => ({
      [name](part, ...rest) {
        if (part === undefined || (isObject(part) && part[symbol] !== undefined)) {
          return apply(native, this, [part, ...rest]);
        }
        const text = asText(this, name);
        const sought = `${part}`;
        refuseQuadratic(text, sought);
        return apply(native, text, [sought, ...rest]);
      },
    }));
  }
  // Runs of combining marks are sorted by a quadratic method.
  const MANY_MARKS = /\p{M}{1000}/u;
  const test = RegExp.prototype.test;
  const refuseMarks = (text) => {
    if (apply(test, MANY_MARKS, [text])) {
      throw new RangeError("a text with a thousand combining marks in a row cannot be normalized");
    }
  };
  replaceMethod(String.prototype, "normalize", (native) => ({
    normalize(...form) {
      const text = asText(this, "normalize");
      refuseMarks(text);
      return apply(native, text, form);
    },
  }));
  replaceMethod(String.prototype, "localeCompare", (native) => ({
    localeCompare(other, ...rest) {
      const text = asText(this, "localeCompare");
      const compared = `${other}`;
      refuseMarks(text);
      refuseMarks(compared);
      return apply(native, text, [compared, ...rest]);
    },
  }));
  replaceMethod(String, "raw", () => ({
    raw(template, ...values) {
      const { raw } = template;
      let text = "";
      for (let place = 0; place < raw.length; place++) {
        text += (place > 0 && place <= values.length ? values[place - 1] : "") + raw[place];
      }
      return text;
    },
  }));
  // With a function to call for every value the engine can be interrupted: a few lists in lists may stand for billions.
  const same = (key, value) => value;
  replaceMethod(JSON, "stringify", (native) => ({
    stringify(value, replacer, space) {
      const replace = typeof replacer === "function" || isArray(replacer) ? replacer : same;
      return native(value, replace, space);
    },
  }));
  const { stringify } = JSON;

  const refuseCount = (length) => {
    if (length > LONGEST) {
      throw new RangeError(`a list of length ${length} is too long for this: at most ${LONGEST}`);
    }
  };
  const typedArrays = getPrototypeOf(Uint8Array.prototype);
  // What computes its length could tell the engine another one than it tells here.
  const refuseLong = (list) => {
    if (!isObject(list)) return;
    if (!isProxy(list)) {
      const own = getOwnPropertyDescriptor(list, "length");
      if (own !== undefined && "value" in own) return refuseCount(+own.value);
      const above = getPrototypeOf(list);
      if (own === undefined && above !== null && getPrototypeOf(above) === typedArrays && !isProxy(above)) return;
      if (own === undefined && (above === plainObject || above === null)) return;
    }
    throw new TypeError("a list that computes its length cannot be used for this: make an array of it first");
  };
  const listMethods = ["copyWithin", "fill", "join", "reverse", "shift", "slice", "sort", "splice", "unshift"];
  for (const name of [...listMethods, "toLocaleString", "toReversed", "toSorted", "toSpliced", "with"]) {
    replaceMethod(Array.prototype, name, (native) => ({
      [name](...given) {
        refuseLong(this);
        return apply(native, this, given);
      },
    }));
  }
  const { isConcatSpreadable } = Symbol;
  const isPlainList = (item) =>
    isArray(item) &&
    !isProxy(item) &&
    getPrototypeOf(item) === Array.prototype &&
    getOwnPropertyDescriptor(item, isConcatSpreadable) === undefined;
  replaceMethod(Array.prototype, "concat", (native) => ({
    concat(...given) {
      const all = [this, ...given];
      let isPlain = true;
      for (let place = 0; place < all.length; place++) {
        if (isPlainList(all[place])) refuseCount(all[place].length);
        else if (place === 0 || isObject(all[place])) isPlain = false;
      }
      if (isPlain) return apply(native, this, given);
      const into = [];
      for (let place = 0; place < all.length; place++) {
        const item = place === 0 ? Object(this) : all[place];
        const wanted = isObject(item) ? item[isConcatSpreadable] : false;
        if (!(wanted === undefined ? isArray(item) : wanted)) {
          append(into, into.length, item);
          continue;
        }
        const start = into.length;
        const length = +item.length;
        refuseCount(length);
        for (let inside = 0; inside < length; inside++) {
          if (inside in item) append(into, start + inside, item[inside]);
        }
        if (length > 0) into.length = start + length;
      }
      return into;
    },
  }));
  const append = (into, place, value) =>
    defineProperty(into, place, { value, writable: true, enumerable: true, configurable: true });
  replaceMethod(Iterator.prototype, "drop", (native) => ({
    drop(count) {
      const many = +count;
      refuseCount(many);
      return apply(native, this, [many]);
    },
  }));
  const flatten = (into, list, depth) => {
    refuseCount(list.length);
    for (let place = 0; place < list.length; place++) {
      if (!(place in list)) continue;
      const item = list[place];
      if (depth > 0 && isArray(item)) flatten(into, item, depth - 1);
      else append(into, into.length, item);
    }
    return into;
  };
  replaceMethod(Array.prototype, "flat", () => ({
    flat(depth = 1) {
      return flatten([], Object(this), +depth || 0);
    },
  }));
  replaceMethod(Array.prototype, "flatMap", () => ({
    flatMap(change, self) {
      return flatten([], apply(Array.prototype.map, this, [change, self]), 1);
    },
  }));

  // ---- calls of tools ----

  const waiting = new Map();

  const call = (name, argument) => {
    const given = argument === undefined ? "{}" : stringify(argument);
    if (given === undefined) {
      throw new TypeError(`the argument of ${name} is no JSON value`);
    }
    const number = bridge("call", name, given);
    return new Promise((resolve, reject) => waiting.set(number, { resolve, reject }));
  };
  const member = (name) => {
    const tool = (argument) => {
      try {
        return call(name, argument);
      } catch (error) {
        return Promise.reject(error);
      }
    };
    defineProperty(tool, "name", { value: name });
    return freeze(tool);
  };

  const settle = (number, how, payload) => {
    const call = waiting.get(number);
    if (call === undefined) return;
    waiting.delete(number);
    if (how === "error") {
      call.reject(new Error(payload));
      return;
    }
    let value = payload;
    if (how === "json") {
      try {
        value = parse(payload);
      } catch (error) {
        call.reject(error);
        return;
      }
    }
    call.resolve(value);
  };

  const listed = parse(setup);
  const members = create(null);
  const index = [];
  for (const { id, name, description } of listed) {
    if (name in members) continue;
    const tool = member(name);
    defineProperty(members, name, { value: tool, enumerable: true });
    if (id !== null && id !== name) defineProperty(members, id, { value: tool, enumerable: true });
    index[index.length] = freeze({ name: id ?? name, description });
  }
  freeze(members);
  freeze(index);

  const letters = (name) => {
    let kept = "";
    for (const letter of apply(lowerCase, name, [])) {
      if ((letter >= "a" && letter <= "z") || (letter >= "0" && letter <= "9")) kept += letter;
    }
    return kept;
  };
  const hint = (wanted) => {
    const sought = letters(wanted);
    const near = [];
    for (const { name } of index) {
      const known = letters(name);
      const alike = sought !== "" && known !== "" && (known.includes(sought) || sought.includes(known));
      if (alike && near.length < 5) near[near.length] = `tools.${name}`;
    }
    if (near.length > 0) return `did you mean ${near.join(", ")}?`;
    if (index.length === 0) return "there are no tools";
    if (index.length > 20) return "ALL_TOOLS lists what there is";
    return `there are: ${index.map(({ name }) => name).join(", ")}`;
  };
  const quiet = (key) => typeof key === "symbol" || key === "then" || key === "toJSON";
  const tools = new Proxy(members, freeze({
    get(target, key) {
      if (key in target) return target[key];
      if (key in plainObject) return plainObject[key];
      if (quiet(key)) return undefined;
      throw new TypeError(`tools.${key} does not exist; ${hint(key)}`);
    },
    set(target, key) {
      throw new TypeError(`tools cannot be changed, so tools.${String(key)} cannot be set`);
    },
  }));

  // ---- output ----

  const errorText = (error) => {
    const { stack } = error;
    const frames = typeof stack === "string" ? bridge("frames", clean(stack)) : "";
    const head = `${error.name}: ${error.message}`;
    return frames === "" ? head : `${head}\n${frames}`;
  };
  const shown = (value) => {
    if (typeof value === "string") return value;
    if (!isObject(value)) return String(value);
    if (isError(value)) return errorText(value);
    const json = stringify(value);
    return json === undefined ? String(value) : json;
  };
  const text = (value) => {
    bridge("text", clean(shown(value)));
  };
  const print = (...values) => {
    let line = "";
    for (let place = 0; place < values.length; place++) line += (place > 0 ? " " : "") + shown(values[place]);
    bridge("console", clean(line));
  };
  const image = (source) => {
    let url = source;
    if (isObject(source)) {
      url = source.image_url ?? (source.type === "image" ? source.data : undefined);
      if (isObject(url)) url = url.url;
    }
    if (typeof url !== "string") {
      throw new TypeError("image takes a data: URL, an object with image_url, or an image block with data");
    }
    bridge("image", clean(url));
  };

  // ---- ends and kept values ----

  const leaving = freeze(create(null));
  const exit = () => {
    bridge("exit");
    throw leaving;
  };
  const store = (key, value) => {
    const json = value === undefined ? undefined : stringify(value);
    if (value !== undefined && json === undefined) throw new TypeError("only JSON values can be stored");
    bridge("store", clean(`${key}`), json);
  };
  const load = (key) => {
    const json = bridge("load", clean(`${key}`));
    return json === undefined ? undefined : parse(json);
  };

  const fail = (error) => {
    if (error === leaving) return;
    let name = "";
    let message = "the script threw a value that cannot be shown";
    let stack = "";
    try {
      if (isError(error)) {
        name = clean(`${error.name}`);
        message = clean(`${error.message}`);
        stack = typeof error.stack === "string" ? clean(error.stack) : "";
      } else if (error !== null) {
        message = clean(shown(error));
      } else {
        name = "null";
      }
    } catch {
      // What a script throws may itself throw when it is looked at.
    }
    bridge("fail", stringify({ name, message, stack }));
  };
  const finish = (value) => {
    let json;
    try {
      json = value === undefined ? undefined : stringify(value);
    } catch (error) {
      fail(error);
      return;
    }
    bridge("done", json);
  };
  const run = (body) => {
    apply(then, body(), [finish, fail]);
  };

  // ---- what the script sees ----

  const console = create(null);
  for (const level of ["debug", "error", "info", "log", "warn"]) {
    defineProperty(console, level, { value: (...values) => print(...values), enumerable: true });
  }
  const seen = { tools, ALL_TOOLS: index, text, console, image, exit, store, load };
  for (const name of keys(seen)) {
    defineProperty(globalThis, name, { value: seen[name], writable: false, enumerable: false, configurable: false });
  }

  // ---- everything frozen ----

  // A stack-trace hook would be handed the functions of the frames, these here among them.
  delete Error.prepareStackTrace;
  delete Error.captureStackTrace;
  delete Error.stackTraceLimit;

  // Names that scripts assign to on their own objects. A frozen data property up the prototype chain would forbid that.
  const ASSIGNABLE = ["constructor", "message", "name", "toJSON", "toLocaleString", "toString", "valueOf"];
  const softened = (owner, key, { value }) => ({
    get() {
      return value;
    },
    set(next) {
      if (this === owner || !isObject(this)) throw new TypeError(`built-in property ${String(key)} cannot be changed`);
      defineProperty(this, key, { value: next, writable: true, enumerable: true, configurable: true });
    },
  });
  const soften = (owner, key) => {
    const old = getOwnPropertyDescriptor(owner, key);
    if (old === undefined || !("value" in old) || !old.configurable) return [];
    const { get, set } = softened(owner, key, old);
    defineProperty(owner, key, { get, set, enumerable: old.enumerable, configurable: false });
    return [get, set];
  };

  const generator = function* () {};
  const asyncGenerator = async function* () {};
  const roots = [
    ...[generator, asyncGenerator, async () => {}].map(getPrototypeOf),
    ...[[].values(), ""[Symbol.iterator](), new Map().keys(), new Set().keys(), "".matchAll(/./g)].map(getPrototypeOf),
    getPrototypeOf(Iterator.from([]).map(noop)),
    getPrototypeOf(Iterator.from({ next: noop })),
    getPrototypeOf(generator.prototype),
    getPrototypeOf(asyncGenerator.prototype),
    getOwnPropertyDescriptor(function () { return arguments; }.call(), "callee").get,
    plainObject,
    bridge,
    isProxy,
    console,
  ];
  for (const name of ["concat", "zip", "zipKeyed"]) {
    try {
      roots[roots.length] = getPrototypeOf(Iterator[name]([]));
    } catch {
      // Not every build of the engine has them.
    }
  }
  const found = new Set([globalThis, tools]);
  const reach = (value) => {
    if (!isObject(value) || found.has(value)) return;
    found.add(value);
  };
  for (const key of ownKeys(globalThis)) {
    const { value, get, set } = getOwnPropertyDescriptor(globalThis, key);
    for (const part of [value, get, set]) reach(part);
    if (value !== undefined) defineProperty(globalThis, key, { writable: false, configurable: false });
  }
  for (const root of roots) reach(root);
  // A set is walked to its end, also past what is added meanwhile.
  for (const object of found) {
    if (object === globalThis || object === tools) continue;
    reach(getPrototypeOf(object));
    const names = ownKeys(object);
    const soft = object === plainObject ? names : "constructor" in object && names.includes("constructor") ? ASSIGNABLE : [];
    for (const key of soft) for (const accessor of soften(object, key)) reach(accessor);
    for (const key of names) {
      const { value, get, set } = getOwnPropertyDescriptor(object, key);
      for (const part of [value, get, set]) reach(part);
    }
    freeze(object);
  }
  for (const made of [settle, run, fail]) freeze(made);
  return { settle, run, fail };
})

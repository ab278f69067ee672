// Preact with its hooks, and templates of htm: index.html loads the three as scripts of their own.

const { createContext, h, render } = window.preact;
const { useCallback, useContext, useEffect, useRef, useState } = window.preactHooks;
const html = window.htm.bind(h);

export { createContext, html, render, useCallback, useContext, useEffect, useRef, useState };

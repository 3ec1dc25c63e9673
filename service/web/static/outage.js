// A service that does not answer for a while: what that is, and when it is asked again.

const FIRST_MS = 1_000;
const LONGEST_MS = 30_000;

/** Nothing came, or an answer that another try may change: it says nothing of what was asked. */
export function isOutage(problem) {
  return problem.status === 0 || problem.status === 429 || problem.status >= 500;
}

/** `after(problem)`: ms to wait, as the service says or else 1, 2, 4 … 30 s; `over()` begins anew. */
export function backOff() {
  let tries = 0;
  return {
    after(problem) {
      const own = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(tries, 8));
      tries += 1;
      return problem.retryAfterMs ?? own;
    },
    over() {
      tries = 0;
    },
  };
}

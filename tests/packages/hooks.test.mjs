// One hook fails, that which FAILS names.
import test, { after, afterEach, before, beforeEach, describe } from "node:test";
import { withEmulator } from "wrs-emulator";

const fails = (hook) => () => {
  if (process.env.FAILS === hook) throw new Error(`from ${hook}`);
};

describe("suite", () => {
  before(fails("before"));
  after(fails("after"));
  beforeEach(fails("beforeEach"));
  afterEach(fails("afterEach"));
  test("a", withEmulator((wrs, context) => context.after(fails("t.after"))));
});
describe("another", () => test("a", withEmulator(() => {})));
before(fails("before all"));
after(fails("after all"));

/* What a state looks like: a tone and an icon. Its name is always the word beside them. */
const unknownLook = { tone: "idle", icon: "ring" };

const sinkLooks = {
  running: { tone: "ok", icon: "play" },
  starting: { tone: "idle", icon: "clock" },
  standby: { tone: "idle", icon: "ring" },
  draining: { tone: "idle", icon: "clock" },
  disconnected: { tone: "idle", icon: "cross" },
  unowned: { tone: "bad", icon: "cross" },
  paused: { tone: "warn", icon: "pause" },
  stalled: { tone: "bad", icon: "alert" },
  refused: { tone: "bad", icon: "cross" },
  down: { tone: "bad", icon: "cross" },
};

const receiverLooks = {
  active: { tone: "ok", icon: "play" },
  failing: { tone: "bad", icon: "alert" },
  disabled: { tone: "bad", icon: "cross" },
  paused: { tone: "warn", icon: "pause" },
};

const scheduleLooks = {
  active: { tone: "ok", icon: "clock" },
  paused: { tone: "warn", icon: "pause" },
  failing: { tone: "bad", icon: "alert" },
  ended: { tone: "idle", icon: "ring" },
};

/* How an attempt ended, and how an event stands with a sink or receiver. */
const deliveryLooks = {
  delivered: { tone: "ok", icon: "check" },
  retry: { tone: "warn", icon: "again" },
  retrying: { tone: "warn", icon: "again" },
  waiting: { tone: "idle", icon: "clock" },
  rejected: { tone: "bad", icon: "cross" },
  dead: { tone: "bad", icon: "cross" },
  dropped: { tone: "bad", icon: "cross" },
  sink_down: { tone: "bad", icon: "alert" },
  cancelled: { tone: "idle", icon: "ring" },
};

export const sinkLook = (state) => sinkLooks[state] ?? unknownLook;
export const receiverLook = (state) => receiverLooks[state] ?? unknownLook;
export const scheduleLook = (state) => scheduleLooks[state] ?? unknownLook;
export const deliveryLook = (state) => deliveryLooks[state] ?? unknownLook;

/* An active receiver fails if the relay has noted since when. */
export const receiverState = (receiver) => (receiver.state === "active" && receiver.failing_since ? "failing" : receiver.state);

// What the pipeline of a view reports, and its commands.

import { actionButton } from "./actions.js";
import { bytes, count, duration, isoTime, whole } from "./dom.js";

/** What a pipeline reports of its work; nothing if it reports none. */
export function describeStats(stats) {
  const rate = (value) => `${count(Math.round(value))} records/s`;
  const shown = [
    ["input_rate", "Records that arrive", rate],
    ["processed_rate", "Records processed at most", rate],
    ["batch_ms", "Micro-batch", duration],
    ["state_rows", "Rows of state", count],
    ["state_bytes", "State in memory", bytes],
    ["watermark", "Watermark", isoTime],
    ["late_rows", "Late records", count],
    ["dropped_rows", "Dropped rows", count],
    ["dead_letters", "Dead letters of the pipeline", count],
    ["restarts", "Restarts after failures", count],
  ];
  return shown.filter(([name]) => name in stats).map(([name, text, show]) => [text, show(stats[name])]);
}

/** Estimates of the time that the pipeline needs; nothing while they are not known. */
export function describeEstimates(pipeline) {
  const shown = [["seconds_left", "Pipeline done in"], ["rebuild_seconds", "A rebuild takes"]];
  return shown.filter(([name]) => pipeline[name])
    .map(([name, text]) => [text, `about ${whole(1000 * pipeline[name])}`]);
}

const COMMANDS = [
  ["Pause", "pause", "It stops reading until it is resumed; the view keeps its entries."],
  ["Resume", "resume", "It continues where it stopped."],
  ["Restart", "restart", "Its queries stop and start again, from their checkpoints."],
  ["Rebuild", "rebuild", "It deletes its checkpoints, and derives the view again from the start of its sources. " +
    "Results of records that the sources no longer have are lost."],
];

/** The buttons for the pipeline of a view; none if no job would carry out a command. */
export function pipelineButtons(view) {
  return COMMANDS.map(([text, action, effect]) => {
    const button = actionButton(`${text} pipeline`, effect, () => ({
      path: `views/${encodeURIComponent(view)}/pipeline`,
      body: { action },
      question: `${text} the pipeline of view ${view}? ${effect}`,
      done: `The pipeline of view ${view} has the command ${action}. Its state shows when it is done.`,
    }));
    button.dataset.action = action;
    return button;
  });
}

/** Shows the buttons that make sense in the state of the pipeline. */
export function showPipelineButtons(buttons, pipeline) {
  const follows = pipeline?.follows_commands && !["stopped", "unknown"].includes(pipeline.state);
  for (const button of buttons) {
    const { action } = button.dataset;
    const isOther = action === (pipeline?.state === "paused" ? "pause" : "resume");
    button.hidden = !follows || isOther;
  }
}

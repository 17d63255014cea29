"""How a run is shown in a notebook: a table with plots, which follows the job."""

import html as _html
import math
import threading

_REFRESH_S = 1.0
_PLOTS = (("loss", "loss"), ("accuracy", "accuracy"), ("auc", "AUC"), ("events_per_s_now", "events/s"), ("lag", "lag (events)"))


def show(run):
    """Displays the run, and renews what is shown until the job has ended."""
    from IPython.display import HTML, display

    handle = display(HTML(html(run)), display_id=True)
    if handle is None or not run.running:
        return

    def follow():
        while run.running:
            run._over.wait(_REFRESH_S)
            try:
                handle.update(HTML(html(run)))
            except Exception:  # noqa: BLE001, the notebook may be gone
                return

    threading.Thread(target=follow, daemon=True, name="leat-notebook").start()


def html(run):
    with run._lock:
        columns, status = run._samples.columns(), run._status
    if status is None:
        return "<p>The job starts.</p>"
    plots = []
    for name, title in _PLOTS:
        points = [(t, v) for t, v in zip(columns["time_s"].tolist(), columns[name].tolist()) if math.isfinite(v)]
        if len(points) > 1:
            plots.append(_plot(title, points))
    members = "".join(
        f"<tr><td>{_text(m.get('role'))} {_text(m.get('index'))}</td><td>{_text(m.get('host'))}</td>"
        f"<td>{_text('slow' if m.get('slow') else m.get('state', 'active'))}</td>"
        f"<td style='text-align:right'>{m.get('done', 0):,}</td></tr>"
        for m in status.get("members", ())[:32])
    cells = [("phase", status.get("phase")), ("events", f"{status.get('events', 0):,}"),
             ("events/s", _number(status.get("events_per_s_now", status.get("events_per_s")))),
             ("loss", _number(status.get("loss"))), ("accuracy", _number(status.get("accuracy"))),
             ("AUC", _number(status.get("auc"))), ("lag", _number(status.get("lag"))),
             ("dead letters", status.get("dead_letters"))]
    head = "".join(f"<th>{_text(name)}</th>" for name, value in cells if value is not None)
    body = "".join(f"<td>{_text(value)}</td>" for _, value in cells if value is not None)
    return (f"<div><b>{_text(status.get('job'))}</b>"
            f"<table><tr>{head}</tr><tr>{body}</tr></table>"
            f"<div style='display:flex;flex-wrap:wrap'>{''.join(plots)}</div>"
            f"<table><tr><th>member</th><th>host</th><th>state</th><th>done</th></tr>{members}</table></div>")


def _text(value):
    return _html.escape(str(value))


def _number(value):
    if value is None:
        return None
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def _plot(title, points, width=260, height=110):
    """A line in an SVG, with the least and the largest value."""
    left, top, right, bottom = 8, 20, width - 8, height - 18
    times, values = [t for t, _ in points], [v for _, v in points]
    t0, t1, low, high = times[0], max(times[-1], times[0] + 1e-9), min(values), max(values)
    span = high - low or 1.0
    step = max(1, len(points) // 200)
    shown = points[::step] + ([points[-1]] if (len(points) - 1) % step else [])
    path = " ".join(f"{left + (t - t0) / (t1 - t0) * (right - left):.1f},{bottom - (v - low) / span * (bottom - top):.1f}"
                    for t, v in shown)
    style = "font:11px sans-serif;fill:currentColor"
    return (f"<svg width='{width}' height='{height}' role='img' aria-label='{_text(title)}'>"
            f"<text x='{left}' y='13' style='{style};font-weight:bold'>{_text(title)} {_text(_number(values[-1]))}</text>"
            f"<polyline points='{path}' fill='none' stroke='#2a78d6' stroke-width='1.5'/>"
            f"<text x='{left}' y='{height - 4}' style='{style};opacity:.7'>{_text(_number(low))} to "
            f"{_text(_number(high))}, {times[-1] - times[0]:.0f} s</text></svg>")

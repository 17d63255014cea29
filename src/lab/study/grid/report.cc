#include "lab/study/grid/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/json/text.h"
#include "base/text.h"

namespace leat::study {

namespace {

using Json = nlohmann::ordered_json;
using fields::NameOf;

// Names a series by the settings that differ among the series of the study.
std::string NameOf(const StudyFile& study, const GridPoint& point) {
  std::string name = StrategyText(study, point.strategy);
  const auto add = [&name](const std::string& part) { name += ", " + part; };
  if (study.servers.size() > 1 && point.servers > 0) add(std::to_string(point.servers) + " ps");
  if (study.batches.size() > 1) add("batch " + std::to_string(point.batch));
  if (study.placements.size() > 1 && point.servers > 0) add(PlacementText(study, point.placement));
  if (study.links.size() > 1) add(study.links[point.link]);
  if (study.inputs.size() > 1) add("input " + study.inputs[point.input]);
  return name;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '&'   ? "&amp;"
               : c == '<' ? "&lt;"
               : c == '>' ? "&gt;"
               : c == '"' ? "&quot;"
                          : std::string(1, c);
  }
  return escaped;
}

// Points that differ in the number of workers only.
struct Series {
  GridPoint common;                        // workers: of the first one
  std::string name;                        // settings that distinguish it from the other series
  std::vector<const PointResult*> points;  // succeeded points, by workers
  std::vector<SeriesPoint> values;         // values of `points`, in the same order
  std::optional<SweetSpot> sweet_spot;
};

std::vector<Series> SeriesOf(const StudyFile& study, const std::vector<PointResult>& results) {
  std::vector<Series> all;
  std::map<GridPoint, size_t> known;
  for (const PointResult& result : results) {
    GridPoint common = result.point;
    common.workers = 0;
    const auto [at, made] = known.try_emplace(common, all.size());
    if (made) all.push_back({.common = result.point, .name = NameOf(study, result.point)});
    if (result.error.empty()) all[at->second].points.push_back(&result);
  }
  for (Series& series : all) {
    std::ranges::stable_sort(series.points, {}, [](const PointResult* p) { return p->point.workers; });
    for (const PointResult* p : series.points) {
      series.values.push_back({.workers = p->point.workers,
                               .events_per_s = p->events_per_s,
                               .target_s = p->target_s,
                               .target_events = p->target_events,
                               .usage = p->usage});
    }
    if (!series.values.empty())
      series.sweet_spot = FindSweetSpot(series.values, study.gain, study.target.has_value());
  }
  return all;
}

// ---- plots

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::optional<size_t> marked;  // the sweet spot
};

constexpr std::array<const char*, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#8a6d00", "#666666"};
constexpr double kWidth = 520, kHeight = 300, kLeft = 64, kRight = 12, kTop = 30, kBottom = 40;

// The least of 1, 2, 5, 10, … that is at least `value`.
double Rounded(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0, 10.0}) {
    if (step * power >= value * (1 - 1e-9)) return step * power;
  }
  return value;
}

// A small text of a plot.
std::string Label(const char* anchor, double x, double y, const std::string& text) {
  return Formatted(R"(<text class="n" text-anchor="%s" x="%.1f" y="%.1f">%s</text>)", anchor, x, y,
                   Escaped(text).c_str());
}

std::string Plot(const std::string& title, const std::string& unit, const std::vector<Curve>& curves) {
  double most_x = 1, most_y = 0;
  std::set<double> ticks;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      most_x = std::max(most_x, x);
      most_y = std::max(most_y, y);
      ticks.insert(x);
    }
  }
  const double step = Rounded(most_y / 5), top = std::max(step, std::ceil(most_y / step - 1e-9) * step);
  const auto px = [&](double x) { return kLeft + (kWidth - kLeft - kRight) * x / most_x; };
  const auto py = [&](double y) { return kHeight - kBottom - (kHeight - kTop - kBottom) * y / top; };
  std::string svg = R"(<svg viewBox="0 0 520 300" role="img" aria-label=")" + Escaped(title) +
                    R"("><text x="8" y="18" class="t">)" + Escaped(title) + "</text>\n";
  for (double y = 0; y <= top * (1 + 1e-9); y += step) {
    svg += Formatted(R"(<line class="g" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>)", kLeft, kWidth - kRight,
                     py(y), py(y)) +
           Label("end", kLeft - 6, py(y) + 4, Formatted("%.6g", y)) + "\n";
  }
  double last = -1e9;
  for (const double x : ticks) {
    if (px(x) - last < 22) continue;
    last = px(x);
    svg += Label("middle", last, kHeight - 22, Formatted("%.0f", x)) + "\n";
  }
  svg += Label("middle", 290, kHeight - 6, "workers") + Label("end", kWidth - kRight, 18, unit) + "\n";
  for (size_t i = 0; i < curves.size(); ++i) {
    const char* const colour = kColours[i % kColours.size()];
    const std::string line = Joined(curves[i].points, " ", [&](const auto& point) {
      return Formatted("%.1f,%.1f", px(point.first), py(point.second));
    });
    svg += Formatted(R"(<polyline fill="none" stroke-width="2" stroke="%s" points="%s"/>)", colour,
                     line.c_str()) +
           "\n";
    for (size_t k = 0; k < curves[i].points.size(); ++k) {
      const auto& [x, y] = curves[i].points[k];
      const bool marked = curves[i].marked == k;
      svg += Formatted(R"(<circle cx="%.1f" cy="%.1f" r="%d" fill="%s"><title>%s, %.0f workers: %.4g %s%s)",
                       px(x), py(y), marked ? 6 : 3, colour, Escaped(curves[i].name).c_str(), x, y,
                       Escaped(unit).c_str(), marked ? " (sweet spot)" : "") +
             "</title></circle>\n";
    }
  }
  return svg + "</svg>\n";
}

using Value = std::function<std::optional<double>(const Series&, size_t)>;

std::vector<Curve> Curves(const std::vector<Series>& all, const Value& value) {
  std::vector<Curve> curves;
  for (const Series& series : all) {
    Curve& curve = curves.emplace_back();
    curve.name = series.name;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const auto y = value(series, i);
      if (!y) continue;
      if (series.sweet_spot && series.sweet_spot->index == i) curve.marked = curve.points.size();
      curve.points.emplace_back(series.points[i]->point.workers, *y);
    }
  }
  return curves;
}

// Speed relative to the speed of one worker, as the first point of the series has it for each of its workers.
std::optional<double> Speedup(const Series& series, size_t i) {
  const double first = series.values[0].events_per_s / series.values[0].workers;
  return first > 0 ? std::optional(series.values[i].events_per_s / first) : std::nullopt;
}

std::string Outcome(const Series& series) {
  if (series.points.empty()) return "no point has succeeded";
  if (!series.sweet_spot) return "the target was not reached";
  const SweetSpot& spot = *series.sweet_spot;
  const std::string workers = std::to_string(series.values[spot.index].workers);
  if (spot.at_end)
    return "every worker up to " + workers + " is worth it; limit: " + std::string(NameOf(spot.factor));
  return "sweet spot " + workers + (workers == "1" ? " worker" : " workers") + "; then a worker adds " +
         Formatted("%.0f", 100 * spot.marginal) + " % of one; limit: " + std::string(NameOf(spot.factor));
}

std::string Reason(const Series& series) {
  if (!series.sweet_spot) return "";
  const size_t at = std::min(series.sweet_spot->index + 1, series.values.size() - 1);
  return Explain(series.sweet_spot->factor,
                 series.values[series.sweet_spot->at_end ? series.values.size() - 1 : at]);
}

std::string WinnerText(const StudyFile& study, const PointResult& best) {
  std::string text = std::to_string(best.point.workers) + " workers, " + NameOf(study, best.point) + ": " +
                     Formatted("%.0f events/s", best.events_per_s);
  if (best.target_s) text += ", " + study.target->Text() + " after " + TimeText(*best.target_s);
  return text + " (" + std::string(NameOf(best.mode)) + ")";
}

}  // namespace

std::string Sparkline(const std::vector<double>& values) {
  static constexpr std::array<const char*, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double most = values.empty() ? 0 : *std::ranges::max_element(values);
  std::string line;
  for (const double value : values) {
    const double height = most > 0 ? std::clamp(value / most, 0.0, 1.0) * 8 : 0;
    line += kBars[static_cast<size_t>(std::clamp(std::ceil(height) - 1, 0.0, 7.0))];
  }
  return line;
}

const PointResult* Winner(const StudyFile& study, const std::vector<PointResult>& results) {
  const PointResult* best = nullptr;
  const auto worth = [&study](const PointResult& p) {
    if (!study.target) return p.events_per_s;
    return p.target_s && *p.target_s > 0 ? 1 / *p.target_s : 0;
  };
  for (const PointResult& result : results) {
    if (!result.error.empty() || !(worth(result) > 0)) continue;
    if (best == nullptr || worth(result) > worth(*best)) best = &result;
  }
  return best;
}

std::string RenderText(const StudyFile& study, const std::vector<PointResult>& results) {
  const std::vector<Series> all = SeriesOf(study, results);
  size_t width = 0;
  for (const Series& series : all) width = std::max(width, series.name.size());
  std::string text;
  for (const Series& series : all) {
    std::vector<double> speeds;
    for (const SeriesPoint& point : series.values) speeds.push_back(point.events_per_s);
    const std::string workers =
        Joined(series.values, " ", [](const SeriesPoint& point) { return std::to_string(point.workers); });
    text += "  " + series.name + std::string(width - series.name.size() + 2, ' ');
    if (!speeds.empty())
      text += Sparkline(speeds) + "  up to " + Formatted("%.0f events/s", *std::ranges::max_element(speeds)) +
              " with " + workers + " workers\n  " + std::string(width + 2, ' ');
    text += Outcome(series) + "\n";
    if (const std::string reason = Reason(series); !reason.empty())
      text += "  " + std::string(width + 2, ' ') + reason + "\n";
  }
  for (const PointResult& result : results) {
    if (!result.error.empty()) text += "  failed: " + KeyOf(study, result.point) + ": " + result.error + "\n";
  }
  const PointResult* const best = Winner(study, results);
  text += best != nullptr ? "  best: " + WinnerText(study, *best) + "\n"
          : study.target  ? "  the target " + study.target->Text() + " was not reached by any point\n"
                          : "  no point has succeeded\n";
  return text;
}

std::string RenderCsv(const StudyFile& study, const std::vector<PointResult>& results) {
  std::string csv =
      "workers,ps,batch,strategy,placement,link,input,mode,events,events_per_s,seconds,target_s,"
      "target_events,compute_s,cost,accuracy,loss,server_link,server_cpu,worker_link,compute,wait,input_wait,"
      "slowest,staleness,server_bytes,error\n";
  const auto quoted = [](std::string text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
  };
  const auto number = [](double value) { return Formatted("%.6g", value); };
  const auto maybe = [&](const std::optional<double>& value) { return value ? number(*value) : ""; };
  for (const PointResult& r : results) {
    const std::string bytes = Joined(r.server_bytes, " ", [](double one) { return Formatted("%.0f", one); });
    const Usage& u = r.usage;
    for (const std::string& cell :
         {std::to_string(r.point.workers),
          std::to_string(r.point.servers),
          std::to_string(r.point.batch),
          quoted(StrategyText(study, r.point.strategy)),
          r.point.servers > 0 ? quoted(PlacementText(study, r.point.placement)) : "",
          study.links[r.point.link],
          study.inputs[r.point.input],
          quoted(std::string(NameOf(r.mode))),
          number(r.events),
          number(r.events_per_s),
          number(r.seconds),
          maybe(r.target_s),
          maybe(r.target_events),
          number(r.compute_s),
          number(r.cost),
          maybe(r.accuracy),
          maybe(r.loss),
          number(u.server_link),
          number(u.server_cpu),
          number(u.member_link),
          number(u.compute),
          number(u.wait),
          number(u.input_wait),
          number(u.slowest),
          number(u.staleness),
          bytes})
      csv += cell + ",";
    csv += (r.error.empty() ? "" : quoted(r.error)) + "\n";
  }
  return csv;
}

std::string RenderJson(const StudyFile& study, const std::vector<PointResult>& results) {
  Json json{{"study", study.name}, {"job", study.job_file}, {"gain", study.gain}};
  if (study.target)
    json["target"] = {{study.target->figure, study.target->value}, {"window", study.target->window}};
  json["points"] = Json::array();
  for (const PointResult& result : results) json["points"].push_back(ToJson(study, result));
  json["series"] = Json::array();
  for (const Series& series : SeriesOf(study, results)) {
    Json one{{"name", series.name}, {"outcome", Outcome(series)}, {"reason", Reason(series)}};
    if (series.sweet_spot) {
      one["sweet_spot"] = series.values[series.sweet_spot->index].workers;
      one["at_end"] = series.sweet_spot->at_end;
      one["marginal"] = series.sweet_spot->marginal;
      one["limit"] = NameOf(series.sweet_spot->factor);
    } else {
      one["sweet_spot"] = nullptr;
    }
    json["series"].push_back(std::move(one));
  }
  const PointResult* const best = Winner(study, results);
  json["best"] = best != nullptr ? Json(KeyOf(study, best->point)) : Json(nullptr);
  return JsonText(json, 2);
}

std::string RenderHtml(const StudyFile& study, const std::vector<PointResult>& results) {
  const std::vector<Series> all = SeriesOf(study, results);
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>" +
      Escaped(study.name) +
      "</title><style>\n"
      ":root{color-scheme:light dark;--text:#1c1c1c;--soft:#666;--line:#ddd;--page:#fff}\n"
      "@media(prefers-color-scheme:dark){:root{--text:#eee;--soft:#aaa;--line:#444;--page:#161616}}\n"
      "body{font:15px/1.5 "
      "system-ui,sans-serif;color:var(--text);background:var(--page);max-width:1120px;margin:2em "
      "auto;padding:0 1em}\n"
      ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:1em}\n"
      "svg{width:100%;height:auto}svg "
      "text{fill:var(--text)}.t{font-weight:600;font-size:14px}.n{font-size:11px;fill:"
      "var(--soft)!important}.g{stroke:var(--line)}\n"
      "table{border-collapse:collapse;font-size:13px}td,th{padding:.3em "
      ".7em;text-align:right;border-bottom:1px solid "
      "var(--line)}td:first-child,th:first-child{text-align:left}.scroll{overflow-x:auto}\n"
      ".key{display:inline-block;width:.8em;height:.8em;border-radius:50%;margin-right:.4em}\n"
      "</style></head><body><h1>" +
      Escaped(study.name) + "</h1>\n";
  const PointResult* const best = Winner(study, results);
  html += "<p>" +
          (best != nullptr ? "Best: " + Escaped(WinnerText(study, *best))
                           : std::string("No point has reached the target.")) +
          "</p>\n<ul>\n";
  for (size_t i = 0; i < all.size(); ++i) {
    html += "<li><span class=\"key\" style=\"background:" + std::string(kColours[i % kColours.size()]) +
            "\"></span><b>" + Escaped(all[i].name) + "</b>: " + Escaped(Outcome(all[i]));
    if (const std::string reason = Reason(all[i]); !reason.empty()) html += ". " + Escaped(reason);
    html += "</li>\n";
  }
  html += "</ul>\n<div class=\"plots\">\n";
  if (study.target) {
    html += Plot("Time to " + study.target->Text(), "s",
                 Curves(all, [](const Series& s, size_t i) { return s.values[i].target_s; }));
  }
  html +=
      Plot("Speed", "events/s",
           Curves(all, [](const Series& s, size_t i) { return std::optional(s.values[i].events_per_s); }));
  html += Plot("Speedup", "times one worker", Curves(all, Speedup));
  html += Plot("Efficiency", "of a worker", Curves(all, [](const Series& s, size_t i) {
                 const auto speedup = Speedup(s, i);
                 return speedup ? std::optional(*speedup / s.values[i].workers) : std::nullopt;
               }));
  html += Plot("Aggregated compute time", "CPU s for a million events",
               Curves(all, [](const Series& s, size_t i) {
                 const PointResult& p = *s.points[i];
                 return p.events > 0 ? std::optional(p.compute_s / p.events * 1e6) : std::nullopt;
               }));
  html += "</div>\n<div class=\"scroll\"><table><tr><th>point</th><th>how</th><th>events/s</th><th>time</th>";
  if (study.target) html += "<th>to target</th>";
  html +=
      "<th>CPU s</th><th>cost</th><th>accuracy</th><th>server link</th><th>server CPU</th><th>computing</th>"
      "<th>waiting</th><th>staleness</th></tr>\n";
  for (const PointResult& r : results) {
    html += "<tr><td>" + Escaped(KeyOf(study, r.point)) + "</td><td>" + Escaped(NameOf(r.mode)) + "</td>";
    if (!r.error.empty()) {
      html += "<td colspan=\"11\">failed: " + Escaped(r.error) + "</td></tr>\n";
      continue;
    }
    const auto percent = [](double share) { return Formatted("%.0f %%", 100 * share); };
    std::vector<std::string> cells{Formatted("%.0f", r.events_per_s), TimeText(r.seconds)};
    if (study.target) cells.push_back(r.target_s ? TimeText(*r.target_s) : "not reached");
    cells.insert(cells.end(),
                 {Formatted("%.1f", r.compute_s), Formatted("%.4g", r.cost),
                  r.accuracy ? Formatted("%.4f", *r.accuracy) : "–", percent(r.usage.server_link),
                  percent(r.usage.server_cpu), percent(r.usage.compute), percent(r.usage.wait),
                  Formatted("%.1f", r.usage.staleness)});
    for (const std::string& cell : cells) html += "<td>" + Escaped(cell) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table></div></body></html>\n";
}

}  // namespace leat::study

#include <string>
#include <string_view>
#include <vector>

#include "base/fields/json.h"
#include "show/dashboard/page_files.h"
#include "show/history/history.h"
#include "show/report/figures.h"

namespace leat::observe {

using report::Shown;

struct PageFigure {
  std::string_view name;  // name of its series, of its rate, or of its entry in the status
  std::string unit;
  Shown shown;
  std::string_view key;    // label of its keys, if it has several values
  std::string_view role;   // role of the members whose rate it is
  std::string_view total;  // series of the sum over these members
};
LEAT_FIELDS(PageFigure, (name), (unit), (shown, Flat), (key, Sparse), (role, Sparse), (total, Sparse));

// A chart, or a column.
struct PageGroup {
  std::string_view title;
  std::vector<PageFigure> figures = {};
};
LEAT_FIELDS(PageGroup, (title), (figures));

struct PageContent {
  std::vector<PageGroup> charts, columns;
  std::vector<PageFigure> bars, details;  // figures of members
};
LEAT_FIELDS(PageContent, (charts), (columns), (bars), (details));

namespace {

constexpr std::string_view kWorker = fields::NameOf(MemberSample::Role::kWorker),
                           kServer = fields::NameOf(MemberSample::Role::kServer);

template <class T>
PageFigure Described(const report::Figure<T>& from, std::string_view role) {
  const bool rate = from.rate || !role.empty();
  return {.name = from.name.empty() ? from.tag : from.name,
          .unit = std::string(from.unit) + (rate ? "/s" : ""),
          .shown = from.shown,
          .key = from.label,
          .role = role};
}

// Calls f(figure, role) for each figure of members; only rates have a role.
template <class F>
void ForEachOfMembers(const F& f) {
  for (const auto& figure : report::kWorkerRates) f(figure, kWorker);
  for (const auto& figure : report::kServerRates) f(figure, kServer);
  for (const auto& figure : report::kMemberFigures) f(figure, "");
  for (const auto& figure : report::kWorkerFigures) f(figure, "");
}

}  // namespace

std::string FiguresScript() {
  PageContent content;
  for (const auto& [chart, title] : EnumeratorsOf(report::Chart())) {
    auto& lines = content.charts.emplace_back(PageGroup{title}).figures;
    // The series of the job, and means over workers; of servers, each one's rate.
    const auto add = [&, chart = chart](const auto& figure, std::string_view role) {
      if (figure.shown.chart != chart) return;
      PageFigure& line = lines.emplace_back(Described(figure, role));
      (role == kServer ? line.total : line.name) = fields::NameOf(figure.series);
      if (role != kServer) line.role = "";
    };
    for (const auto& figure : report::kJobFigures) add(figure, "");
    ForEachOfMembers(add);
  }
  for (const auto& [column, title] : EnumeratorsOf(report::Column())) {
    auto& figures = content.columns.emplace_back(PageGroup{title}).figures;
    ForEachOfMembers([&, column = column](const auto& figure, std::string_view role) {
      if (figure.shown.column == column) figures.push_back(Described(figure, role));
    });
  }
  ForEachOfMembers([&](const auto& figure, std::string_view role) {
    const Shown::As as = figure.shown.as;
    if (as == Shown::As::kPart || as == Shown::As::kBar) content.bars.push_back(Described(figure, role));
    if (as == Shown::As::kDetail) content.details.push_back(Described(figure, role));
  });
  return "export const {charts, columns, bars, details} = " + fields::ToJson(content) + ";\n";
}

}  // namespace leat::observe

#include "show/dashboard/dashboard.h"

#include "base/fields/json.h"
#include "show/history/history.h"

// The assembler reads the files. CMake defines LEAT_PAGE_FOLDER, and compiles this again when one has
// changed.
#define LEAT_PAGE_FILE(name, file)                                                                          \
  asm(".section .rodata\n.global " #name "\n.hidden " #name "\n.global " #name "_end\n.hidden " #name       \
      "_end\n" #name ":\n.incbin \"" LEAT_PAGE_FOLDER "/" file "\"\n" #name "_end:\n.byte 0\n.previous\n"); \
  extern "C" const char name[], name##_end[];

LEAT_PAGE_FILE(leat_page_index, "index.html")
LEAT_PAGE_FILE(leat_page_style, "style.css")
LEAT_PAGE_FILE(leat_page_icon, "icon.svg")
LEAT_PAGE_FILE(leat_page_theme, "theme.js")
LEAT_PAGE_FILE(leat_page_format, "format.js")
LEAT_PAGE_FILE(leat_page_charts, "charts.js")
LEAT_PAGE_FILE(leat_page_panels, "panels.js")
LEAT_PAGE_FILE(leat_page_main, "main.js")
LEAT_PAGE_FILE(leat_page_chart, "chart.js")

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

constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kCss = "text/css; charset=utf-8";
constexpr const char* kScript = "text/javascript; charset=utf-8";

#define LEAT_CONTENT(name) \
  { name, static_cast<size_t>(name##_end - name) }

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

std::span<const PageFile> PageFiles() {
  static const std::string figures = FiguresScript();
  static const PageFile files[] = {
      {"/", kHtml, LEAT_CONTENT(leat_page_index)},
      {"/style.css", kCss, LEAT_CONTENT(leat_page_style)},
      {"/icon.svg", "image/svg+xml", LEAT_CONTENT(leat_page_icon)},
      {"/theme.js", kScript, LEAT_CONTENT(leat_page_theme)},
      {"/figures.js", kScript, figures},
      {"/format.js", kScript, LEAT_CONTENT(leat_page_format)},
      {"/charts.js", kScript, LEAT_CONTENT(leat_page_charts)},
      {"/panels.js", kScript, LEAT_CONTENT(leat_page_panels)},
      {"/main.js", kScript, LEAT_CONTENT(leat_page_main)},
      {"/chart.js", kScript, LEAT_CONTENT(leat_page_chart)},
  };
  return files;
}

}  // namespace leat::observe

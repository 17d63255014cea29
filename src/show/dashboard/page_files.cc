#include "show/dashboard/page_files.h"

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

namespace {

constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kCss = "text/css; charset=utf-8";
constexpr const char* kScript = "text/javascript; charset=utf-8";

#define LEAT_CONTENT(name) \
  { name, static_cast<size_t>(name##_end - name) }

}  // namespace

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

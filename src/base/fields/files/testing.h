// For tests: the tables of pages in docs/, compared with their sources in the code, and written with
// LEAT_WRITE_DOCS=1.
//
//   EXPECT_EQ((fields::PageFault<Request, Reply>(LEAT_CONTROL_PAGE)), "");
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/fields/description.h"

namespace leat::fields {

// The table of a struct or a variant in Markdown.
inline std::string TableOf(const Description::Block& block) {
  std::string table = block.is_variant ? "| number | kind | message |\n" : "| field | type | limits |\n";
  table += "|---|---|---|\n";
  for (const Description::Row& row : block.rows) {
    if (block.is_variant) {
      table += "| " + row.name + " | `" + row.type + "` | " + row.limits + " |\n";
    } else {
      table += "| `" + row.name + "` | " + row.type + " | " + row.limits + " |\n";
    }
  }
  return table;
}

// A page whose parts stand between lines, the last of which is `<!-- end -->`.
class DocPage {
 public:
  explicit DocPage(std::string path) : path_(std::move(path)) {
    std::ifstream in(path_);
    before_.assign(std::istreambuf_iterator<char>(in), {});
    text_ = before_;
  }

  bool Has(const std::string& line) const { return text_.find(line + '\n') != std::string::npos; }
  // Empty, or the page's fault: it has no such line, or no end. `what`: the part, for the text.
  std::string Put(const std::string& line, const std::string& what, const std::string& content) {
    const size_t at = text_.find(line + '\n');
    if (at == std::string::npos) return path_ + " has no line " + line;
    const size_t from = at + line.size() + 1, to = text_.find("<!-- end -->", from);
    const std::string start = line.substr(0, line.find(':'));  // beginning of every part's marker
    if (to == std::string::npos || text_.substr(from, to - from).find(start) != std::string::npos)
      return path_ + ": the table of " + what + " has no <!-- end -->";
    text_.replace(from, to - from, "\n" + content + "\n");
    return {};
  }
  // The first line that differs from the page before Put, unless the page is written.
  std::string Fault(std::string_view from_what, bool write) const {
    if (text_ == before_) return {};
    if (write) {
      std::ofstream(path_) << text_;
      return {};
    }
    const size_t at = static_cast<size_t>(std::ranges::mismatch(text_, before_).in1 - text_.begin());
    const size_t from = text_.rfind('\n', at) + 1, to = text_.find('\n', at);
    return path_ + " differs from the " + std::string(from_what) +
           "; run with LEAT_WRITE_DOCS=1. The first line: " + text_.substr(from, to - from);
  }
  static bool Writes() { return std::getenv("LEAT_WRITE_DOCS") != nullptr; }

 private:
  std::string path_, before_, text_;
};

// The first fault of the page's tables of these structs and variants, or of those inside them. Each of Ts has
// one: a line `<!-- fields: NAME -->`, then the table, and a line `<!-- end -->`.
template <class... Ts>
std::string PageFault(const std::string& path, bool write = DocPage::Writes()) {
  DocPage page(path);
  const Description all = Describe<Ts...>();
  for (const Description::Block& block : all.blocks()) {
    const std::string line = "<!-- fields: " + block.name + " -->";
    if (!page.Has(line) && !(all.IsOf<Ts>(block) || ...)) continue;
    if (std::string fault = page.Put(line, block.name, TableOf(block)); !fault.empty()) return fault;
  }
  return page.Fault("fields", write);
}

}  // namespace leat::fields

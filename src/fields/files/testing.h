// For tests: the tables of docs/formats/, compared with lists of fields (fields.h), and written from them.
//
//   EXPECT_EQ((fields::PageFault<Request, Reply>(LEAT_CONTROL_PAGE)), "");
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "fields/description.h"

namespace leat::fields {

// The first fault of the page's tables of these structs and variants, or of those inside them. Each of Ts has
// one: a line `<!-- fields: NAME -->`, then the table, and a line `<!-- end -->`. LEAT_WRITE_DOCS=1 writes
// them.
template <class... Ts>
std::string PageFault(const std::string& path, bool write = std::getenv("LEAT_WRITE_DOCS") != nullptr) {
  std::ifstream in(path);
  std::string page((std::istreambuf_iterator<char>(in)), {});
  const std::string before = page, start = "<!-- fields: ", end = "<!-- end -->";
  const Description all = Describe<Ts...>();
  for (const Description::Block& block : all.blocks()) {
    const std::string line = start + block.name + " -->";
    const size_t at = page.find(line + '\n');
    if (at == std::string::npos) {
      if ((all.IsOf<Ts>(block) || ...)) return path + " has no line " + line;
      continue;
    }
    const size_t from = at + line.size() + 1, to = page.find(end, from);
    if (to == std::string::npos || page.substr(from, to - from).find(start) != std::string::npos)
      return path + ": the table of " + block.name + " has no " + end;
    page.replace(from, to - from, "\n" + TableOf(block) + "\n");
  }
  if (page == before) return {};
  if (!write) {
    const size_t at = static_cast<size_t>(std::ranges::mismatch(page, before).in1 - page.begin());
    const size_t from = page.rfind('\n', at) + 1, to = page.find('\n', at);
    return path + " differs from the fields; run with LEAT_WRITE_DOCS=1. The first line: " +
           page.substr(from, to - from);
  }
  std::ofstream(path) << page;
  return {};
}

}  // namespace leat::fields

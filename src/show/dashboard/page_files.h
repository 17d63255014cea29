// The files of a job's page, which are part of the program.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace leat::observe {

struct PageFile {
  const char* path;  // "/style.css"
  const char* type;  // "text/css; charset=utf-8"
  std::string_view content;
};
std::span<const PageFile> PageFiles();
// The script that tells the others what the page shows of which figures (show/report/figures.h).
std::string FiguresScript();

}  // namespace leat::observe

// Parts of the commands that messages propose for a file.
#pragma once

#include <string>

namespace leat::stream {

// The path as a word of the shell.
std::string ShellWord(const std::string& path);
// A name for what a command makes of the file; never the file's own. "data/rows.txt", ".csv" →
// "rows.new.csv".
std::string NewFile(const std::string& path, const std::string& extension);
// "tail -n +3 rows.csv > rows.new.csv", for the file without the lines before this one.
std::string FromLine(const std::string& path, size_t line);

}  // namespace leat::stream

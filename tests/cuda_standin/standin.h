// What the stand-ins for NVIDIA's libraries share: a diary of what was called, and the driver's memory and streams for the libraries above it.
//
// The diary is a file, WGATTN_STANDIN_DIARY: a line per event, begun with a word: compile, load, launch, gemm, fft, capture, replay, lost,
// mistake (what a caller may not do, and a card might let pass), exit (what was never given back).
#pragma once
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <string>
#include <unistd.h>

#define API extern "C" __attribute__((visibility("default")))

namespace standin {

static inline std::string told(const char* name) {
  const char* value = getenv((std::string("WGATTN_STANDIN_") + name).c_str());
  return value ? value : "";
}

static inline long long number(const char* name, long long otherwise) {
  const std::string value = told(name);
  return value.empty() ? otherwise : atoll(value.c_str());
}

// One write for a line, so that lines of several threads and processes stay whole.
__attribute__((format(printf, 1, 2))) static inline void note(const char* format, ...) {
  // Never destroyed: the last line is written when statics are already gone.
  static const std::string& path = *new std::string(told("DIARY"));
  if (path.empty()) { return; }
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length < 0) { return; }
  if (length > (int)sizeof line - 2) { length = (int)sizeof line - 2; }
  line[length++] = '\n';
  int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
  if (file < 0) { return; }
  ssize_t ignored = write(file, line, length);
  (void)ignored;
  close(file);
}

// FNV-1a.
static inline uint64_t hash(const std::string& text) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (unsigned char c : text) { sum = (sum ^ c) * 0x100000001b3u; }
  return sum;
}

// The driver's part for the libraries above it. Codes are the driver's: 0 is well.

// Whether this thread may call: the card is there, is this thread's, and is not lost.
__attribute__((visibility("default"))) int ready();
// The same for calls that may wait or take memory, which spoil a capture in progress.
__attribute__((visibility("default"))) int ready_to_wait();
// Puts work on a stream, or into what is being captured there. `work` gives a code of the driver.
__attribute__((visibility("default"))) int put(void* stream, const char* name, std::function<int()> work);
// Whether a stream is captured at the moment.
__attribute__((visibility("default"))) bool is_captured(void* stream);
// Whether bytes lie inside one live allocation; a mistake is noted where not.
__attribute__((visibility("default"))) bool holds(const char* who, uint64_t at, size_t bytes);
// Whether nobody wrote beside the allocation of an address.
__attribute__((visibility("default"))) bool is_whole(const char* who, uint64_t at);
// Memory of the card: 0 and a code.
__attribute__((visibility("default"))) int take(uint64_t* at, size_t bytes);
__attribute__((visibility("default"))) int give(uint64_t at);

} // namespace standin

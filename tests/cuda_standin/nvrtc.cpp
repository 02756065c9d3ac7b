// A stand-in for NVRTC, libnvrtc.so.12: it hands the text through as what it has compiled, which the driver's stand-in then compiles for
// the host.
//
// WGATTN_STANDIN_BROKEN (a piece of text: whatever contains it does not compile, at its line), _BUILTINS (1: the compiler lacks its
// built-in functions and says nothing more), _NEWEST (the newest architecture that it knows, 120).
#include "standin.h"
#include <vector>

using namespace standin;

namespace {

enum Code { OK = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, BUILTIN_OPERATION_FAILURE = 7 };

struct Program {
  std::string text, name, log, cubin, ptx;
};

std::vector<int> architectures() {
  std::vector<int> list;
  for (int one : {50, 60, 70, 75, 80, 86, 89, 90, 100, 120}) {
    if (one <= number("NEWEST", 120)) { list.push_back(one); }
  }
  return list;
}

} // namespace

API int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 9;
  return OK;
}

API int nvrtcGetNumSupportedArchs(int* count) {
  *count = (int)architectures().size();
  return OK;
}

API int nvrtcGetSupportedArchs(int* list) {
  for (int one : architectures()) { *list++ = one; }
  return OK;
}

API int nvrtcCreateProgram(Program** program, const char* text, const char* name, int headers, const char* const*, const char* const*) {
  if (!text || headers != 0) { return INVALID_INPUT; }
  *program = new Program{text, name ? name : "default_program", "", "", ""};
  return OK;
}

API int nvrtcDestroyProgram(Program** program) {
  if (!program || !*program) { return INVALID_PROGRAM; }
  delete *program;
  *program = nullptr;
  return OK;
}

API int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  int machine = 0, virtual_one = 0;
  for (int i = 0; i < count; i++) {
    const std::string option = options[i];
    const std::string gpu = "--gpu-architecture=";
    if (option.compare(0, gpu.size() + 3, gpu + "sm_") == 0) {
      machine = atoi(option.c_str() + gpu.size() + 3);
    } else if (option.compare(0, gpu.size() + 8, gpu + "compute_") == 0) {
      virtual_one = atoi(option.c_str() + gpu.size() + 8);
    } else if (option != "--std=c++17" && option != "--ptxas-options=-v") {
      program->log = "nvrtc: error: invalid value for an option: " + option + "\n";
      return INVALID_OPTION;
    }
  }
  const int wanted = machine ? machine : virtual_one;
  bool known = false;
  for (int one : architectures()) { known = known || one == wanted; }
  if (!known) {
    program->log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
    return INVALID_OPTION;
  }
  note("compile %s %d", program->name.c_str(), wanted);
  if (number("BUILTINS", 0)) { return BUILTIN_OPERATION_FAILURE; }
  const std::string broken = told("BROKEN");
  const size_t at = broken.empty() ? std::string::npos : program->text.find(broken);
  if (at != std::string::npos) {
    int line = 1;
    for (size_t i = 0; i < at; i++) { line += program->text[i] == '\n'; }
    program->log = program->name + "(" + std::to_string(line) + "): error: identifier \"" + broken + "\" is undefined\n\n1 error detected in the compilation of \"" +
                   program->name + "\".\n";
    return COMPILATION;
  }
  const std::string number = std::to_string(wanted);
  program->log = "ptxas info    : 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
  // There is machine code only where it was asked for.
  if (machine) { program->cubin = "standin cubin sm_" + number + "\n" + program->text + std::string(1, '\0'); }
  program->ptx = "standin ptx compute_" + number + "\n" + program->text;
  return OK;
}

API int nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  *bytes = program->cubin.size();
  return OK;
}

API int nvrtcGetCUBIN(Program* program, char* to) {
  if (program->cubin.empty()) { return INVALID_PROGRAM; }
  program->cubin.copy(to, program->cubin.size());
  return OK;
}

API int nvrtcGetPTXSize(Program* program, size_t* bytes) {
  *bytes = program->ptx.size() + 1;
  return OK;
}

API int nvrtcGetPTX(Program* program, char* to) {
  program->ptx.copy(to, program->ptx.size());
  to[program->ptx.size()] = 0;
  return OK;
}

API int nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return OK;
}

API int nvrtcGetProgramLog(Program* program, char* to) {
  program->log.copy(to, program->log.size());
  to[program->log.size()] = 0;
  return OK;
}

API const char* nvrtcGetErrorString(int code) {
  switch (code) {
  case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
  case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
  case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
  case COMPILATION: return "NVRTC_ERROR_COMPILATION";
  case BUILTIN_OPERATION_FAILURE: return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
  default: return nullptr;
  }
}

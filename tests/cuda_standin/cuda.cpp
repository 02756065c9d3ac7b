// A stand-in for NVIDIA's driver, libcuda.so.1: one card, made of this machine's memory and processor, for tests of what we ask of a driver.
//
// It is as strict as its documents allow. Memory has guards, begins as NaN and is poisoned when it is freed; what is put on a stream runs
// as late as it may, when somebody waits; a stream under capture records; handles are checked, and so is which context is current; an
// error of a kernel stays with its context. Kernels are the text itself, compiled by the host's C++ compiler with the shim of `cuda:host`.
//
// WGATTN_STANDIN_ARCHITECTURE (80), _DRIVER (12040), _MEMORY (bytes), _FAULT_AT (the launch that reads a wrong address, from 1),
// _FOREVER (1: that stays with the process, as NVIDIA says it does), _MODULES (a folder for compiled kernels), _OLD_PTX (1: PTX is of a
// version that the driver does not know), _FAULT_CODE (700: what that launch ends with), _INSTANTIATE (what captures cannot be made ready
// for, if not 0).
#include "standin.h"
#include <condition_variable>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <sys/stat.h>
#include <thread>
#include <time.h>
#include <unordered_set>
#include <vector>

using namespace standin;

namespace {

enum Code {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  ILLEGAL_STATE = 401,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  CONTEXT_IS_DESTROYED = 709,
  LAUNCH_FAILED = 719,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_WRONG_THREAD = 908,
};

const struct { int code; const char* name; } NAMES[] = {
  {OK, "CUDA_SUCCESS"},
  {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
  {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
  {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
  {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
  {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
  {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
  {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
  {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE"},
  {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
  {NOT_READY, "CUDA_ERROR_NOT_READY"},
  {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
  {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
  {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
  {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
  {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
  {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
};

enum Kind { CONTEXT, STREAM, MODULE, FUNCTION, EVENT, GRAPH, EXEC, KINDS };
const char* const KIND_NAMES[] = {"contexts", "streams", "modules", "functions", "events", "graphs", "replays"};

struct Context;

// What a handle stands for. It is never freed, so that a stale handle is known as such.
struct Object {
  Kind kind;
  Context* context;
  bool alive = true;
};

struct Context : Object {
  int retained = 0, error = OK;
};

struct Work {
  std::string name;
  std::function<int()> run;
};

struct Stream : Object {
  std::deque<Work> waiting;
  bool captured = false, spoiled = false;
  int mode = 0;
  std::thread::id thread;
  std::vector<Work> recorded;
};

typedef const char* (*Launch)(unsigned, unsigned, const void*, void* const*);

struct Module : Object {
  void* library = nullptr;
  std::string entry;
};

struct Function : Object {
  Module* module = nullptr;
  Launch launch = nullptr;
  unsigned params_bytes = 0, pointers = 0, threads = 0;
};

struct Event : Object {
  bool recorded = false, over = false;
  uint64_t nanoseconds = 0;
};

struct Graph : Object {
  std::vector<Work> works;
};

struct Piece {
  char* base;
  size_t bytes;
  Context* context;
};

const size_t GUARD = 1024, ALIGN = 256;
const unsigned char FILL = 0xff;
const size_t KEPT = 64 << 20;

struct State {
  std::recursive_mutex lock;
  bool initialised = false;
  int forever = OK;
  Context* primary = nullptr;
  std::unordered_set<void*> objects;
  std::map<uint64_t, Piece> pieces;
  std::deque<Piece> freed;
  size_t used = 0, kept = 0;
  long long launches = 0;
  uint64_t clock = 0;
  long long mistakes = 0;
};

// Never destroyed: threads may still be there when the process ends.
State& state() {
  static State* all = new State;
  return *all;
}

thread_local Context* current = nullptr;

#define LOCKED std::lock_guard<std::recursive_mutex> hold(state().lock)

template <typename... A> void mistake(const char* format, A... arguments) {
  char words[900];
  snprintf(words, sizeof words, format, arguments...);
  state().mistakes++;
  note("mistake %s", words);
}

template <typename T> T* made(Kind kind, Context* context) {
  T* object = new T;
  object->kind = kind;
  object->context = context;
  state().objects.insert(object);
  return object;
}

// The object of a handle; null and a mistake where there is none.
template <typename T> T* known(void* handle, Kind kind, const char* who) {
  Object* object = (Object*)handle;
  if (!handle || !state().objects.count(handle) || object->kind != kind || !object->alive) {
    mistake("%s is given no living handle of its kind", who);
    return nullptr;
  }
  if (object->context && object->context != current) {
    mistake("%s is given a handle of another context", who);
    return nullptr;
  }
  return (T*)object;
}

int usable() {
  if (!state().initialised) { return NOT_INITIALIZED; }
  if (!current) {
    mistake("a call without a current context");
    return INVALID_CONTEXT;
  }
  if (!current->alive) { return CONTEXT_IS_DESTROYED; }
  return current->error;
}

// Calls that may wait are refused while this thread captures, or any thread does for everybody; what is captured is spoiled by them.
int usable_to_wait(const char* who) {
  if (int code = usable()) { return code; }
  for (void* handle : state().objects) {
    Stream* stream = (Stream*)handle;
    if (stream->kind != STREAM || !stream->alive || !stream->captured || stream->mode == 2) { continue; }
    if (stream->mode == 0 || stream->thread == std::this_thread::get_id()) {
      stream->spoiled = true;
      mistake("%s during a capture", who);
      return CAPTURE_UNSUPPORTED;
    }
  }
  return OK;
}

void lose(Context* context, int code, const char* why) {
  context->error = code;
  if (number("FOREVER", 0)) { state().forever = code; }
  note("lost %d %s", code, why);
}

// Runs what waits on a stream.
int flush(Stream* stream) {
  while (!stream->waiting.empty()) {
    Work work = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    if (stream->context->error) { break; }
    if (int code = work.run()) { lose(stream->context, code, work.name.c_str()); }
  }
  if (stream->context->error) { stream->waiting.clear(); }
  return stream->context->error;
}

int flush_all(Context* context) {
  std::vector<Stream*> streams;
  for (void* handle : state().objects) {
    Object* object = (Object*)handle;
    if (object->kind == STREAM && object->alive && object->context == context) { streams.push_back((Stream*)object); }
  }
  for (Stream* stream : streams) { flush(stream); }
  return context->error;
}

int put_on(Stream* stream, Work work) {
  if (stream->captured) {
    if (stream->spoiled) { return CAPTURE_INVALIDATED; }
    if (stream->thread != std::this_thread::get_id()) {
      mistake("%s of another thread goes into a capture", work.name.c_str());
    }
    stream->recorded.push_back(std::move(work));
    return OK;
  }
  stream->waiting.push_back(std::move(work));
  return OK;
}

// The allocation that an address lies in.
Piece* piece_of(uint64_t at) {
  auto after = state().pieces.upper_bound(at);
  if (after == state().pieces.begin()) { return nullptr; }
  auto piece = std::prev(after);
  return at < piece->first + piece->second.bytes || at == piece->first ? &piece->second : nullptr;
}

bool guards_hold(const Piece& piece) {
  const unsigned char* base = (const unsigned char*)piece.base;
  for (size_t i = 0; i < GUARD; i++) {
    if (base[i] != FILL || base[GUARD + piece.bytes + i] != FILL) { return false; }
  }
  return true;
}

// Lets go of an allocation: poisoned first, and its address not given to others soon.
void let_go(std::map<uint64_t, Piece>::iterator at) {
  Piece piece = at->second;
  if (!guards_hold(piece)) { mistake("somebody wrote beside an allocation of %zu bytes", piece.bytes); }
  memset(piece.base + GUARD, FILL, piece.bytes);
  State& all = state();
  all.used -= piece.bytes;
  all.pieces.erase(at);
  all.freed.push_back(piece);
  all.kept += piece.bytes;
  while (all.kept > KEPT) {
    all.kept -= all.freed.front().bytes;
    free(all.freed.front().base);
    all.freed.pop_front();
  }
}

// Ends a context with all that it has.
void destroy(Context* context) {
  flush_all(context);
  size_t left[KINDS] = {};
  for (void* handle : state().objects) {
    Object* object = (Object*)handle;
    if (object->alive && object->context == context && object != context) {
      if (object->kind != FUNCTION) { left[object->kind]++; }
      object->alive = false;
    }
  }
  size_t bytes = 0;
  for (auto piece = state().pieces.begin(); piece != state().pieces.end();) {
    auto next = std::next(piece);
    if (piece->second.context == context) {
      bytes += piece->second.bytes;
      let_go(piece);
    }
    piece = next;
  }
  context->alive = false;
  // What a lost card had is gone anyway.
  if (context->error) { return; }
  for (int kind = 0; kind < KINDS; kind++) {
    if (left[kind]) { mistake("a context ends with %zu %s", left[kind], KIND_NAMES[kind]); }
  }
  if (bytes) { mistake("a context ends with %zu bytes of memory", bytes); }
}

// At the end of the process: what was never given back. Other threads may still hold the lock, which then have something.
__attribute__((destructor)) void end() {
  State& all = state();
  if (!all.lock.try_lock()) {
    note("exit busy");
    return;
  }
  size_t left[KINDS] = {};
  for (void* handle : all.objects) {
    Object* object = (Object*)handle;
    if (object->alive) { left[object->kind]++; }
  }
  for (auto& piece : all.pieces) {
    if (!guards_hold(piece.second)) { mistake("somebody wrote beside an allocation of %zu bytes", piece.second.bytes); }
  }
  note("exit bytes=%zu contexts=%zu streams=%zu modules=%zu events=%zu graphs=%zu replays=%zu launches=%lld mistakes=%lld", all.used,
       left[CONTEXT], left[STREAM], left[MODULE], left[EVENT], left[GRAPH], left[EXEC], all.launches, all.mistakes);
  all.lock.unlock();
}

// What follows a kernel's text: a function that calls its entry with arguments of the types that it declares.
const char* const BEHIND = R"(
namespace standin {
static const void* given_params;
static void* const* given;
template <typename... A, size_t... I> static void call(void (*entry)(Params, A...), std::index_sequence<I...>) {
  entry(*(const Params*)given_params, (A)given[I]...);
}
template <typename... A> static void call_with_all(void (*entry)(Params, A...)) { call(entry, std::index_sequence_for<A...>{}); }
template <typename... A> constexpr unsigned pointers(void (*)(Params, A...)) { return sizeof...(A); }
static void one_thread() { call_with_all(&ENTRY); }
}
#define SHOWN extern "C" __attribute__((visibility("default")))
SHOWN const unsigned standin_params_bytes = sizeof(Params);
SHOWN const unsigned standin_pointers = standin::pointers(&ENTRY);
SHOWN const unsigned standin_threads = THREADS;
SHOWN size_t standin_shared() { return __start_shared_memory ? __stop_shared_memory - __start_shared_memory : 0; }
SHOWN const char* standin_launch(unsigned blocks, unsigned threads, const void* params, void* const* given) {
  standin::given_params = params;
  standin::given = given;
  return run_grid(blocks, threads, 0, standin::one_thread);
}
)";

// The name of the one kernel of a text.
std::string entry_of(const std::string& text) {
  const std::string begin = "extern \"C\" __global__";
  size_t at = text.find(begin);
  if (at == std::string::npos) { return ""; }
  // Behind `__launch_bounds__(THREADS)`, if it is there.
  size_t open = text.find('(', at);
  if (text.compare(at, open - at, begin + " void __launch_bounds__") == 0) { open = text.find('(', open + 1); }
  if (open == std::string::npos) { return ""; }
  size_t first = text.find_last_of(" \n\t*", open - 1);
  return text.substr(first + 1, open - first - 1);
}

bool is_there(const std::string& path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0;
}

// Compiles a text once for all processes that share the folder; the path of the library, or nothing.
std::string compiled(const std::string& text, const std::string& entry) {
  const std::string folder = told("MODULES").empty() ? P_tmpdir : told("MODULES");
  const std::string whole = std::string("#include <utility>\n#include \"") + SHIM + "\"\n#line 1 \"" + entry + ".cu\"\n" + text +
                            "\n#define ENTRY " + entry + BEHIND;
  char name[64];
  snprintf(name, sizeof name, "/%016llx", (unsigned long long)hash(whole));
  const std::string path = folder + name + ".so";
  if (is_there(path)) { return path; }
  static int count = 0;
  char mine[64];
  {
    LOCKED;
    snprintf(mine, sizeof mine, ".%d-%d", (int)getpid(), count++);
  }
  const std::string source = folder + name + mine + ".cpp", target = folder + name + mine + ".so";
  FILE* file = fopen(source.c_str(), "w");
  if (!file) { return ""; }
  fwrite(whole.data(), 1, whole.size(), file);
  fclose(file);
  const std::string compiler = getenv("CXX") && *getenv("CXX") ? getenv("CXX") : "c++";
  const std::string command = compiler + " -std=c++17 -O1 -w -shared -fPIC -U_FORTIFY_SOURCE -fvisibility=hidden -o '" + target + "' '" +
                              source + "' 2>/dev/null";
  if (system(command.c_str()) != 0) { return ""; }
  unlink(source.c_str());
  rename(target.c_str(), path.c_str());
  return path;
}

// What a cubin of the stand-in begins with; text that was asked for as PTX has another.
const char* const CUBIN = "standin cubin sm_";
const char* const PTX = "standin ptx compute_";

} // namespace

// For the libraries above.

int standin::ready() {
  LOCKED;
  return usable();
}

int standin::ready_to_wait() {
  LOCKED;
  return usable_to_wait("a call of a library that takes memory or waits");
}

int standin::put(void* handle, const char* name, std::function<int()> work) {
  LOCKED;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, name);
  return stream ? put_on(stream, {name, std::move(work)}) : INVALID_HANDLE;
}

bool standin::is_captured(void* handle) {
  LOCKED;
  Stream* stream = known<Stream>(handle, STREAM, "a library");
  return stream && stream->captured;
}

bool standin::holds(const char* who, uint64_t at, size_t bytes) {
  LOCKED;
  auto after = state().pieces.upper_bound(at);
  if (after != state().pieces.begin()) {
    auto piece = std::prev(after);
    if (at + bytes <= piece->first + piece->second.bytes) { return true; }
  }
  mistake("%s: %zu bytes at an address that is not in one allocation of the card", who, bytes);
  return false;
}

bool standin::is_whole(const char* who, uint64_t at) {
  LOCKED;
  Piece* piece = piece_of(at);
  if (piece && guards_hold(*piece)) { return true; }
  mistake("%s wrote beside its memory", who);
  return false;
}

int standin::take(uint64_t* at, size_t bytes) {
  LOCKED;
  const size_t all = (size_t)number("MEMORY", 8LL << 30);
  if (bytes > all || state().used + bytes > all) { return OUT_OF_MEMORY; }
  Piece piece = {nullptr, bytes, current};
  const size_t room = (bytes + 2 * GUARD + ALIGN - 1) / ALIGN * ALIGN;
  piece.base = (char*)aligned_alloc(ALIGN, room);
  if (!piece.base) { return OUT_OF_MEMORY; }
  memset(piece.base, FILL, room);
  *at = (uint64_t)piece.base + GUARD;
  state().pieces[*at] = piece;
  state().used += bytes;
  return OK;
}

int standin::give(uint64_t at) {
  LOCKED;
  auto piece = state().pieces.find(at);
  if (piece == state().pieces.end()) {
    mistake("memory is given back that was never taken, or twice");
    return INVALID_VALUE;
  }
  let_go(piece);
  return OK;
}

// The driver's functions. Handles are pointers; devices are numbers; addresses have 64 bits.

API int cuInit(unsigned flags) {
  LOCKED;
  state().initialised = true;
  return flags ? INVALID_VALUE : OK;
}

API int cuDriverGetVersion(int* version) {
  *version = (int)number("DRIVER", 12040);
  return OK;
}

API int cuDeviceGetCount(int* count) {
  *count = 1;
  return state().initialised ? OK : NOT_INITIALIZED;
}

API int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? OK : INVALID_DEVICE;
}

API int cuDeviceGetName(char* name, int length, int) {
  snprintf(name, length, "Card of a stand-in");
  return OK;
}

API int cuDeviceGetPCIBusId(char* bus, int length, int) {
  snprintf(bus, length, "0000:AB:00.0");
  return OK;
}

API int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = (size_t)number("MEMORY", 8LL << 30);
  return OK;
}

API int cuDeviceGetAttribute(int* value, int which, int) {
  const int architecture = (int)number("ARCHITECTURE", 80);
  switch (which) {
  case 13: *value = 1410000; break; // clock, kHz
  case 16: *value = 108; break; // multiprocessors
  case 36: *value = 1215000; break; // memory clock, kHz
  case 37: *value = 5120; break; // bits of the memory bus
  case 38: *value = 40 << 20; break; // L2
  case 75: *value = architecture / 10; break;
  case 76: *value = architecture % 10; break;
  default: *value = 0;
  }
  return OK;
}

API int cuDevicePrimaryCtxRetain(Context** context, int device) {
  LOCKED;
  if (!state().initialised) { return NOT_INITIALIZED; }
  if (device != 0) { return INVALID_DEVICE; }
  if (state().forever) { return state().forever; }
  Context*& primary = state().primary;
  if (!primary || !primary->alive) {
    primary = made<Context>(CONTEXT, nullptr);
    note("context");
  }
  primary->retained++;
  *context = primary;
  return OK;
}

API int cuDevicePrimaryCtxRelease_v2(int) {
  LOCKED;
  Context* primary = state().primary;
  if (!primary || !primary->alive) {
    mistake("a context is released that nobody retains");
    return INVALID_CONTEXT;
  }
  if (--primary->retained == 0) { destroy(primary); }
  return OK;
}

API int cuCtxSetCurrent(Context* context) {
  LOCKED;
  if (context && (!state().objects.count(context) || context->kind != CONTEXT)) { return INVALID_CONTEXT; }
  if (context && !context->alive) { return CONTEXT_IS_DESTROYED; }
  current = context;
  return OK;
}

API int cuMemGetInfo_v2(size_t* left, size_t* all) {
  LOCKED;
  if (int code = usable()) { return code; }
  *all = (size_t)number("MEMORY", 8LL << 30);
  *left = *all - state().used;
  return OK;
}

API int cuStreamCreate(Stream** stream, unsigned flags) {
  LOCKED;
  if (int code = usable()) { return code; }
  if (flags > 1) { return INVALID_VALUE; }
  *stream = made<Stream>(STREAM, current);
  return OK;
}

API int cuStreamDestroy_v2(Stream* handle) {
  LOCKED;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, "cuStreamDestroy");
  if (!stream) { return INVALID_HANDLE; }
  flush(stream);
  stream->alive = false;
  return OK;
}

API int cuStreamSynchronize(Stream* handle) {
  LOCKED;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, "cuStreamSynchronize");
  if (!stream) { return INVALID_HANDLE; }
  if (stream->captured) {
    if (!stream->spoiled) { mistake("cuStreamSynchronize of a stream that is captured"); }
    stream->spoiled = true;
    return CAPTURE_UNSUPPORTED;
  }
  return flush(stream);
}

API int cuStreamBeginCapture_v2(Stream* handle, int mode) {
  LOCKED;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, "cuStreamBeginCapture");
  if (!stream) { return INVALID_HANDLE; }
  if (mode < 0 || mode > 2) { return INVALID_VALUE; }
  if (stream->captured) {
    mistake("a capture begins within another");
    return ILLEGAL_STATE;
  }
  stream->captured = true;
  stream->spoiled = false;
  stream->mode = mode;
  stream->thread = std::this_thread::get_id();
  stream->recorded.clear();
  return OK;
}

API int cuStreamEndCapture(Stream* handle, Graph** graph) {
  LOCKED;
  *graph = nullptr;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, "cuStreamEndCapture");
  if (!stream) { return INVALID_HANDLE; }
  if (!stream->captured) { return ILLEGAL_STATE; }
  if (stream->mode != 2 && stream->thread != std::this_thread::get_id()) {
    mistake("a capture is ended by another thread");
    return CAPTURE_WRONG_THREAD;
  }
  stream->captured = false;
  if (stream->spoiled) { return CAPTURE_INVALIDATED; }
  *graph = made<Graph>(GRAPH, current);
  (*graph)->works = std::move(stream->recorded);
  note("capture works=%zu", (*graph)->works.size());
  return OK;
}

API int cuGraphInstantiateWithFlags(Graph** replay, Graph* handle, unsigned long long flags) {
  LOCKED;
  if (int code = usable()) { return code; }
  Graph* graph = known<Graph>(handle, GRAPH, "cuGraphInstantiateWithFlags");
  if (!graph) { return INVALID_HANDLE; }
  if (flags) { return INVALID_VALUE; }
  if (int code = (int)number("INSTANTIATE", 0)) { return code; }
  *replay = made<Graph>(EXEC, current);
  (*replay)->works = graph->works;
  return OK;
}

API int cuGraphLaunch(Graph* handle, Stream* on) {
  LOCKED;
  if (int code = usable()) { return code; }
  Graph* replay = known<Graph>(handle, EXEC, "cuGraphLaunch");
  Stream* stream = known<Stream>(on, STREAM, "cuGraphLaunch");
  if (!replay || !stream) { return INVALID_HANDLE; }
  note("replay works=%zu", replay->works.size());
  for (const Work& work : replay->works) {
    if (int code = put_on(stream, work)) { return code; }
  }
  return OK;
}

API int cuGraphDestroy(Graph* handle) {
  LOCKED;
  Graph* graph = known<Graph>(handle, GRAPH, "cuGraphDestroy");
  if (!graph) { return INVALID_HANDLE; }
  graph->alive = false;
  graph->works.clear();
  return OK;
}

API int cuGraphExecDestroy(Graph* handle) {
  LOCKED;
  Graph* replay = known<Graph>(handle, EXEC, "cuGraphExecDestroy");
  if (!replay) { return INVALID_HANDLE; }
  replay->alive = false;
  replay->works.clear();
  return OK;
}

API int cuMemAlloc_v2(uint64_t* at, size_t bytes) {
  LOCKED;
  if (int code = usable_to_wait("cuMemAlloc")) { return code; }
  if (bytes == 0) {
    mistake("cuMemAlloc of no bytes");
    return INVALID_VALUE;
  }
  return take(at, bytes);
}

API int cuMemFree_v2(uint64_t at) {
  LOCKED;
  if (int code = usable_to_wait("cuMemFree")) { return code; }
  if (int code = flush_all(current)) { return code; }
  return at ? give(at) : OK;
}

// Copies between the card and memory of the host that is not pinned: the host's part is done when the call returns.
static int copied(Stream* handle, const char* who, uint64_t at, size_t bytes, std::function<void()> copy) {
  LOCKED;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, who);
  if (!stream) { return INVALID_HANDLE; }
  if (!holds(who, at, bytes)) { return INVALID_VALUE; }
  if (stream->captured) {
    stream->spoiled = true;
    mistake("%s of memory that is not pinned during a capture", who);
    return CAPTURE_UNSUPPORTED;
  }
  if (int code = flush(stream)) { return code; }
  copy();
  return OK;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
  return copied(stream, "cuMemcpyHtoDAsync", to, bytes, [=] { memcpy((void*)to, from, bytes); });
}

API int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
  return copied(stream, "cuMemcpyDtoHAsync", from, bytes, [=] { memcpy(to, (const void*)from, bytes); });
}

API int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, Stream* handle) {
  LOCKED;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, "cuMemsetD8Async");
  if (!stream) { return INVALID_HANDLE; }
  // What a driver says to no bytes is not written down.
  if (bytes == 0) { mistake("cuMemsetD8Async of no bytes"); }
  if (bytes == 0 || !holds("cuMemsetD8Async", at, bytes)) { return INVALID_VALUE; }
  return put_on(stream, {"memset", [=] {
    if (!holds("memset", at, bytes)) { return (int)ILLEGAL_ADDRESS; }
    memset((void*)at, value, bytes);
    return (int)OK;
  }});
}

struct Copy2D {
  size_t from_x, from_y;
  int from_kind;
  const void* from_host;
  uint64_t from;
  void* from_array;
  size_t from_pitch;
  size_t to_x, to_y;
  int to_kind;
  void* to_host;
  uint64_t to;
  void* to_array;
  size_t to_pitch;
  size_t width, height;
};

API int cuMemcpy2DAsync_v2(const Copy2D* given, Stream* handle) {
  LOCKED;
  if (int code = usable()) { return code; }
  Stream* stream = known<Stream>(handle, STREAM, "cuMemcpy2DAsync");
  if (!stream) { return INVALID_HANDLE; }
  const Copy2D copy = *given;
  // 2: memory of the device.
  if (copy.from_kind != 2 || copy.to_kind != 2 || copy.width == 0 || copy.height == 0 || copy.width + copy.from_x > copy.from_pitch ||
      copy.width + copy.to_x > copy.to_pitch) {
    mistake("cuMemcpy2DAsync with sizes or kinds of memory that do not fit");
    return INVALID_VALUE;
  }
  return put_on(stream, {"copy", [=] {
    const uint64_t from = copy.from + copy.from_y * copy.from_pitch + copy.from_x, to = copy.to + copy.to_y * copy.to_pitch + copy.to_x;
    if (!holds("copy", from, (copy.height - 1) * copy.from_pitch + copy.width) ||
        !holds("copy", to, (copy.height - 1) * copy.to_pitch + copy.width)) {
      return (int)ILLEGAL_ADDRESS;
    }
    for (size_t row = 0; row < copy.height; row++) {
      memcpy((char*)to + row * copy.to_pitch, (const char*)from + row * copy.from_pitch, copy.width);
    }
    return (int)OK;
  }});
}

API int cuModuleLoadData(Module** module, const void* image) {
  {
    LOCKED;
    if (int code = usable_to_wait("cuModuleLoadData")) { return code; }
  }
  const std::string whole = (const char*)image;
  const size_t line = whole.find('\n');
  const int architecture = (int)number("ARCHITECTURE", 80);
  const bool is_cubin = whole.compare(0, strlen(CUBIN), CUBIN) == 0, is_ptx = whole.compare(0, strlen(PTX), PTX) == 0;
  if (line == std::string::npos || (!is_cubin && !is_ptx)) { return INVALID_IMAGE; }
  const int target = atoi(whole.c_str() + strlen(is_cubin ? CUBIN : PTX));
  if (is_ptx && number("OLD_PTX", 0)) { return 222; }
  // Machine code is for one generation, from its minor number on; PTX is for all later ones.
  const bool fits = is_cubin ? target / 10 == architecture / 10 && target <= architecture : target <= architecture;
  if (!fits) { return 209; }
  const std::string text = whole.substr(line + 1), entry = entry_of(text);
  // Without the lock: it takes a second, and others have something to do meanwhile.
  const std::string path = compiled(text, entry);
  void* library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    note("mistake the text of `%s` does not compile with the shim", entry.c_str());
    return INVALID_IMAGE;
  }
  const size_t shared = ((size_t(*)())dlsym(library, "standin_shared"))();
  LOCKED;
  if (shared > 49152) {
    mistake("%s declares %zu bytes of shared memory", entry.c_str(), shared);
    return INVALID_IMAGE;
  }
  note("load %s", entry.c_str());
  *module = made<Module>(MODULE, current);
  (*module)->library = library;
  (*module)->entry = entry;
  return OK;
}

API int cuModuleGetFunction(Function** function, Module* handle, const char* name) {
  LOCKED;
  if (int code = usable()) { return code; }
  Module* module = known<Module>(handle, MODULE, "cuModuleGetFunction");
  if (!module) { return INVALID_HANDLE; }
  if (module->entry != name) { return NOT_FOUND; }
  Function* made_now = made<Function>(FUNCTION, current);
  made_now->module = module;
  made_now->launch = (Launch)dlsym(module->library, "standin_launch");
  made_now->params_bytes = *(unsigned*)dlsym(module->library, "standin_params_bytes");
  made_now->pointers = *(unsigned*)dlsym(module->library, "standin_pointers");
  made_now->threads = *(unsigned*)dlsym(module->library, "standin_threads");
  *function = made_now;
  return OK;
}

API int cuModuleUnload(Module* handle) {
  LOCKED;
  if (int code = usable_to_wait("cuModuleUnload")) { return code; }
  Module* module = known<Module>(handle, MODULE, "cuModuleUnload");
  if (!module) { return INVALID_HANDLE; }
  flush_all(current);
  module->alive = false;
  for (void* other : state().objects) {
    Function* function = (Function*)other;
    if (function->kind == FUNCTION && function->module == module) { function->alive = false; }
  }
  // The library stays: a replay may hold its code, which is the caller's mistake and not ours.
  return OK;
}

API int cuLaunchKernel(Function* handle, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y, unsigned threads_z,
                       unsigned shared, Stream* on, void** arguments, void** extra) {
  LOCKED;
  if (int code = usable()) { return code; }
  Function* function = known<Function>(handle, FUNCTION, "cuLaunchKernel");
  Stream* stream = known<Stream>(on, STREAM, "cuLaunchKernel");
  if (!function || !stream) { return INVALID_HANDLE; }
  const std::string name = function->module->entry;
  if (x == 0 || x > 0x7fffffffu || y != 1 || z != 1 || threads == 0 || threads_y != 1 || threads_z != 1 ||
      threads > function->threads || threads > 1024 || shared || extra || !arguments) {
    mistake("%s: a launch of %u blocks of %u threads, its bounds being %u", name.c_str(), x, threads, function->threads);
    return INVALID_VALUE;
  }
  if (threads != function->threads) { mistake("%s: %u threads, written for %u", name.c_str(), threads, function->threads); }
  // Arguments are copied before the call returns; each is as long as the kernel declares it.
  auto params = std::make_shared<std::vector<uint64_t>>((function->params_bytes + 7) / 8);
  memcpy(params->data(), arguments[0], function->params_bytes);
  std::vector<uint64_t> pointers(function->pointers);
  for (unsigned i = 0; i < function->pointers; i++) { memcpy(&pointers[i], arguments[1 + i], sizeof(uint64_t)); }
  return put_on(stream, {name, [=] {
    State& all = state();
    note("launch %s blocks=%u", name.c_str(), x);
    if (++all.launches == number("FAULT_AT", -1)) { return (int)number("FAULT_CODE", ILLEGAL_ADDRESS); }
    if (!function->alive) {
      mistake("%s runs after its module was unloaded", name.c_str());
      return (int)ILLEGAL_ADDRESS;
    }
    std::vector<void*> given(pointers.size());
    for (size_t i = 0; i < pointers.size(); i++) {
      if (pointers[i] && !piece_of(pointers[i])) {
        mistake("%s: argument %zu points to no memory of the card", name.c_str(), i);
        return (int)ILLEGAL_ADDRESS;
      }
      given[i] = (void*)pointers[i];
    }
    if (const char* wrong = function->launch(x, threads, params->data(), given.data())) {
      mistake("%s: %s", name.c_str(), wrong);
      return (int)LAUNCH_FAILED;
    }
    for (uint64_t at : pointers) {
      if (at && !is_whole(name.c_str(), at)) { return (int)ILLEGAL_ADDRESS; }
    }
    return (int)OK;
  }});
}

API int cuEventCreate(Event** event, unsigned flags) {
  LOCKED;
  if (int code = usable()) { return code; }
  if (flags > 7) { return INVALID_VALUE; }
  *event = made<Event>(EVENT, current);
  return OK;
}

API int cuEventRecord(Event* handle, Stream* on) {
  LOCKED;
  if (int code = usable()) { return code; }
  Event* event = known<Event>(handle, EVENT, "cuEventRecord");
  Stream* stream = known<Stream>(on, STREAM, "cuEventRecord");
  if (!event || !stream) { return INVALID_HANDLE; }
  event->recorded = true;
  event->over = false;
  return put_on(stream, {"event", [=] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t nanoseconds = now.tv_sec * 1000000000ull + now.tv_nsec;
    // Half a microsecond apart at least, as the documents say of their resolution.
    uint64_t& clock = state().clock;
    clock = nanoseconds > clock + 500 ? nanoseconds : clock + 500;
    event->nanoseconds = clock;
    event->over = true;
    return (int)OK;
  }});
}

API int cuEventElapsedTime(float* milliseconds, Event* first, Event* second) {
  LOCKED;
  if (int code = usable()) { return code; }
  Event *begin = known<Event>(first, EVENT, "cuEventElapsedTime"), *end = known<Event>(second, EVENT, "cuEventElapsedTime");
  if (!begin || !end || !begin->recorded || !end->recorded) { return INVALID_HANDLE; }
  if (!begin->over || !end->over) {
    mistake("the time between events is asked for before they are over");
    return NOT_READY;
  }
  *milliseconds = (float)(((double)end->nanoseconds - (double)begin->nanoseconds) * 1e-6);
  return OK;
}

API int cuEventDestroy_v2(Event* handle) {
  LOCKED;
  if (int code = usable()) { return code; }
  Event* event = known<Event>(handle, EVENT, "cuEventDestroy");
  if (!event) { return INVALID_HANDLE; }
  event->alive = false;
  return OK;
}

API int cuGetErrorName(int code, const char** text) {
  for (auto& known : NAMES) {
    if (known.code == code) {
      *text = known.name;
      return OK;
    }
  }
  *text = nullptr;
  return INVALID_VALUE;
}

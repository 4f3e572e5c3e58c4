// Calls across the plain C side: no exception leaves them, and every failure has a code and a message.

#pragma once

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "failure.h"

namespace paradraft {

inline int32_t report(int32_t code, const char *message, paradraft_error *error) {
    if (error != nullptr) std::snprintf(error->message, sizeof error->message, "%s", message);
    return code;
}

template <class Call>
int32_t guarded(paradraft_error *error, Call call) {
    try {
        call();
        return PARADRAFT_OK;
    } catch (const Failure &failure) {
        return report(failure.code, failure.message.c_str(), error);
    } catch (const std::bad_alloc &) {
        return report(PARADRAFT_NO_MEMORY, "Memory is short.", error);
    } catch (const std::exception &failure) {
        return report(PARADRAFT_NO_MEMORY, (std::string("The system refused: ") + failure.what() + ".").c_str(), error);
    }
}

}  // namespace paradraft

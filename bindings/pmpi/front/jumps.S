/*
 * The exported names: MPI_X and PMPI_X of every call that kolo may take.
 *
 * Problem: who calls MPI_Allreduce may be the program, a tool between it and us, or the MPI's own
 * library, whose calls must stay with it; and before MPI_Init nobody knows which MPI this is. None
 * of that may cost a call that kolo takes more than a few instructions, and no signature is known
 * here that would let C pass the arguments on.
 *
 * Idea: a name is one jump through its gate, with all arguments where they are. A gate leads to
 *   slow_N    asks kolo_pmpi_resolve in C where this call goes: at first, and where the caller is
 *             not known yet
 *   check_N   looks its caller up, by the return address: a slot of kolo_pmpi_callers holds twice
 *             that address, plus 1 where the caller belongs to the MPI or to kolo
 *   or any function with this call's arguments.
 * N counts the names MPI_X, then the names PMPI_X.
 */
#include "names.h"

#define EACH_MPI(name) stub MPI_##name;
#define EACH_PMPI(name) stub PMPI_##name;
#define EACH_GATE(name) gate;
#define EACH_WAY(name) way;

    .altmacro
    .hidden kolo_pmpi_resolve

#if defined(__x86_64__)

    .macro stub name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    endbr64
    jmp *kolo_pmpi_gate+8*count(%rip)
    .size \name, . - \name
    .set count, count + 1
    .endm

    .macro one_way number, place
    .p2align 4
slow_\number:
    endbr64
    movl $\number, %r10d
    jmp slow
    .p2align 4
check_\number:
    endbr64
    movq (%rsp), %r11
    movl %r11d, %eax
    shrl $2, %eax
    andl $(KOLO_PMPI_CALLERS - 1), %eax
    leaq kolo_pmpi_callers(%rip), %r10
    movq (%r10,%rax,8), %rax
    addq %r11, %r11
    subq %r11, %rax
    cmpq $1, %rax
    ja slow_\number
    je 1f
    jmp *kolo_pmpi_taken+8*\place(%rip)
1:  jmp *kolo_pmpi_native+8*\place(%rip)
    .endm

    .text
    .type slow, @function
    .p2align 4
/* The number of the name is in r10d; the return address is on top of the stack. */
slow:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    pushq %r8
    .cfi_adjust_cfa_offset 8
    pushq %r9
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movl %r10d, %edi
    movq 56(%rsp), %rsi
    call kolo_pmpi_resolve
    movq %rax, %r11
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r9
    .cfi_adjust_cfa_offset -8
    popq %r8
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%r11
    .cfi_endproc
    .size slow, . - slow

#elif defined(__aarch64__)

    .macro stub name
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    hint #34
    adrp x16, kolo_pmpi_gate+8*count
    ldr x16, [x16, #:lo12:kolo_pmpi_gate+8*count]
    br x16
    .size \name, . - \name
    .set count, count + 1
    .endm

    .macro one_way number, place
    .p2align 4
slow_\number:
    hint #34
    mov w16, #\number
    b slow
    .p2align 4
check_\number:
    hint #34
    adrp x17, kolo_pmpi_callers
    add x17, x17, #:lo12:kolo_pmpi_callers
    ubfx x16, x30, #2, #8
    ldr x17, [x17, x16, lsl #3]
    sub x17, x17, x30, lsl #1
    cmp x17, #1
    b.hi slow_\number
    b.eq 1f
    adrp x16, kolo_pmpi_taken+8*\place
    ldr x16, [x16, #:lo12:kolo_pmpi_taken+8*\place]
    br x16
1:  adrp x16, kolo_pmpi_native+8*\place
    ldr x16, [x16, #:lo12:kolo_pmpi_native+8*\place]
    br x16
    .endm

    .text
    .type slow, %function
    .p2align 4
/* The number of the name is in w16. */
slow:
    .cfi_startproc
    stp x29, x30, [sp, #-96]!
    .cfi_adjust_cfa_offset 96
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    mov w0, w16
    mov x1, x30
    bl kolo_pmpi_resolve
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp x29, x30, [sp], #96
    .cfi_adjust_cfa_offset -96
    .cfi_restore x29
    .cfi_restore x30
    br x16
    .cfi_endproc
    .size slow, . - slow

#else
#error "the jumps of libkolo_pmpi are written for x86-64 and aarch64"
#endif

    .macro way
    one_way %count, %(count % KOLO_PMPI_COUNT)
    .set count, count + 1
    .endm

    .macro address kind, number
    .quad \kind\()_\number
    .endm

    .set count, 0
    KOLO_PMPI_NAMES(EACH_MPI)
    KOLO_PMPI_NAMES(EACH_PMPI)
    .if count <> 2 * KOLO_PMPI_COUNT
    .error "KOLO_PMPI_COUNT is not the number of names"
    .endif

    .set count, 0
    KOLO_PMPI_NAMES(EACH_WAY)
    KOLO_PMPI_NAMES(EACH_WAY)

    .macro table name, kind
    .globl \name
    .hidden \name
    .p2align 3
\name:
    .set count, 0
    .rept 2 * KOLO_PMPI_COUNT
    address \kind, %count
    .set count, count + 1
    .endr
    .endm

/* Where each name leads now; and what may be written there. */
    .data
    table kolo_pmpi_gate, slow
    .section .data.rel.ro, "aw"
    table kolo_pmpi_slow, slow
    table kolo_pmpi_check, check

/* The functions of kolo and of the MPI, by the place of their name in the list. */
    .bss
    .p2align 6
    .globl kolo_pmpi_taken, kolo_pmpi_native, kolo_pmpi_callers
    .hidden kolo_pmpi_taken, kolo_pmpi_native, kolo_pmpi_callers
kolo_pmpi_taken:   .zero 8 * KOLO_PMPI_COUNT
kolo_pmpi_native:  .zero 8 * KOLO_PMPI_COUNT
    .p2align 6
kolo_pmpi_callers: .zero 8 * KOLO_PMPI_CALLERS

    .section .note.GNU-stack, "", %progbits

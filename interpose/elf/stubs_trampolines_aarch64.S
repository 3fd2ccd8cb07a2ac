/* Trampolines for aarch64 (trampolines.h).
 *
 * Kept are all registers in which arguments may be (AAPCS64, 6.4): x0 to x7, x8 (where a result is
 * to be put), v0 to v7; and x18, which is the platform's. Functions with arguments of the scalable
 * vector types keep more, and are left alone (imports.c).
 */
#ifdef __aarch64__

#define TRAMPOLINES 128
#define FRAME 240

        .text
        .p2align 4
        .globl trampoline_stubs
        .hidden trampoline_stubs
        .type trampoline_stubs, %object
        .size trampoline_stubs, 16 * TRAMPOLINES
trampoline_stubs:
        .set number, 0
        .rept TRAMPOLINES
        .p2align 4
        .cfi_startproc
        hint #34                /* bti c, which older processors take for nothing */
        mov x16, #number
        b trampoline
        .cfi_endproc
        .set number, number + 1
        .endr
        .p2align 4

        .type trampoline, %function
trampoline:
        .cfi_startproc
        stp x29, x30, [sp, #-FRAME]!
        .cfi_def_cfa_offset FRAME
        .cfi_offset x29, -FRAME
        .cfi_offset x30, -FRAME + 8
        mov x29, sp
        stp x0, x1, [sp, #16]
        stp x2, x3, [sp, #32]
        stp x4, x5, [sp, #48]
        stp x6, x7, [sp, #64]
        stp x8, x18, [sp, #80]
        stp q0, q1, [sp, #96]
        stp q2, q3, [sp, #128]
        stp q4, q5, [sp, #160]
        stp q6, q7, [sp, #192]
        mov w0, w16
        add x1, sp, #16         /* x0 as it was */
        add x2, sp, #FRAME      /* where the caller's stack ends */
        add x3, sp, #8          /* x30 */
        bl trampoline_called
        mov x16, x0
        ldp x0, x1, [sp, #16]
        ldp x2, x3, [sp, #32]
        ldp x4, x5, [sp, #48]
        ldp x6, x7, [sp, #64]
        ldp x8, x18, [sp, #80]
        ldp q0, q1, [sp, #96]
        ldp q2, q3, [sp, #128]
        ldp q4, q5, [sp, #160]
        ldp q6, q7, [sp, #192]
        ldp x29, x30, [sp], #FRAME
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        br x16
        .cfi_endproc
        .size trampoline, . - trampoline

#endif

        .section .note.GNU-stack, "", %progbits
